// Orders to a live run, where the server allows them. Each is asked twice.
import { h, post, replace } from "../dom.js";

const ASKS = {
  pause: "Let it wait?", unpause: "Let it go on?", stop: "End it, with a checkpoint to go on from?", checkpoint: "Save a checkpoint now?", evaluate: "Evaluate the present version?",
};

export function orders(home) {
  const bar = h("span", { class: "bar" }), said = h("span", { class: "soft small", role: "status" }), root = h("div", { class: "orders bar", hidden: true }, bar, said);
  let shape = "";

  async function give(words) {
    try { const answer = await post(`${home}/order?order=${encodeURIComponent(words)}`); said.textContent = answer.state ? `it is ${answer.state}` : "done"; } catch (problem) { said.textContent = problem.message; }
    shape = "";
  }

  function ask(question, words, danger) {
    shape = "asking";
    const yes = h("button", { type: "button", class: danger ? "danger" : "primary", onclick: () => give(words) }, "Yes");
    replace(bar, h("span", { class: "ask" }, question, yes, h("button", { type: "button", class: "quiet", onclick: () => { shape = ""; } }, "No")));
    yes.focus();
  }

  function change(policies) {
    shape = "asking";
    const words = h("input", { type: "text", placeholder: "lr=0.0003", "aria-label": "Changes, KEY=VALUE" });
    const policy = policies.length > 1 ? h("select", { "aria-label": "Policy" }, policies.map((name) => h("option", null, name))) : null;
    replace(bar, h("span", { class: "ask" }, policy, words, h("button", { type: "button", onclick: () => { const all = ["reconfigure", policy?.value, words.value.trim()].filter(Boolean).join(" "); ask(`Change ${words.value.trim()}?`, all); } }, "Change"), h("button", { type: "button", class: "quiet", onclick: () => { shape = ""; } }, "No")));
    words.focus();
  }

  return {
    root,
    take(run) {
      root.hidden = !run.control || run.group !== "live";
      const next = `${run.state} ${run.settings.evaluates}`;
      if (root.hidden || shape === "asking" || shape === next) return;
      shape = next;
      const names = [run.state === "paused" ? "unpause" : "pause", "checkpoint", run.settings.evaluates ? "evaluate" : null, "stop"].filter(Boolean);
      replace(bar, names.map((name) => h("button", { type: "button", class: name === "stop" ? "danger" : "", onclick: () => ask(ASKS[name], name, name === "stop") }, name)), h("button", { type: "button", onclick: () => change(run.settings.policies) }, "change…"));
    },
  };
}
