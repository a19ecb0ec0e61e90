// The live spectator: it plays only while this is open.
import { h, post } from "../dom.js";

const RENEW = 2000, FRAME = 250;

export function watch(home) {
  const image = h("img", { alt: "The newest image of a policy at play", hidden: true, width: 600, height: 400 }), said = h("p", { class: "soft" }, "");
  const root = h("div", { class: "card" }, h("h2", null, "Watch it play"), h("div", { class: "stage" }, image), said);
  let lease = 0, frames = 0, live = false, open = false, busy = false;

  async function renew() {
    if (document.hidden || !live) return;
    try { said.textContent = (await post(`${home}/watch`)).said ?? ""; } catch (problem) { said.textContent = problem.message; }
  }

  async function next() {
    if (document.hidden || busy || !live) return;
    busy = true;
    try {
      const answer = await fetch(`${home}/watch/frame`);
      if (answer.status === 200) {
        const data = new Uint8Array(await answer.arrayBuffer());
        let text = "";
        for (let i = 0; i < data.length; i += 8192) text += String.fromCharCode(...data.subarray(i, i + 8192));
        image.src = `data:image/jpeg;base64,${btoa(text)}`;
        image.hidden = false;
        image.dataset.frames = String(Number(image.dataset.frames ?? 0) + 1);
      }
    } catch { /* the next one */ } finally { busy = false; }
  }

  function begin() {
    clearInterval(lease); clearInterval(frames);
    if (!live) { said.textContent = "The run has ended: see its videos under Evaluations, or make one with shoal rollout --video."; return; }
    said.textContent = "Waiting for the first image…";
    renew(); lease = setInterval(renew, RENEW); frames = setInterval(next, FRAME);
  }

  root.take = (run) => { const was = live; live = run.group === "live" && run.state !== "elsewhere"; if (open && was !== live) begin(); };
  root.open = () => { open = true; begin(); };
  root.close = () => { open = false; clearInterval(lease); clearInterval(frames); };
  return root;
}
