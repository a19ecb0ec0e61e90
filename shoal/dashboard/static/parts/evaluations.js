// Scores of saved versions with their intervals, and films of them.
import { Chart } from "../chart.js";
import { get, h, replace } from "../dom.js";
import { clock, count, number, short } from "../format.js";

export function evaluations(home) {
  const chart = new Chart({ title: "score, with its 95 % interval", key: `${home} scores`, onzoom: () => {} });
  const films = h("div", { class: "films" }), table = h("div", { class: "scroll" }), none = h("p", { class: "soft" }, "Nothing was evaluated beside training. evaluation.every=30s would."), card = h("div", { class: "card" }, h("h2", null, "Versions"), table), filmCard = h("div", { class: "card", hidden: true }, h("h2", null, "Videos"), films);
  const root = h("div", null, none, chart.root, h("div", { class: "gap" }), filmCard, card);
  let names = "";
  chart.root.hidden = card.hidden = true;

  root.tell = (events) => {
    const scores = events.filter((event) => event.kind === "evaluation" && Number.isFinite(event.mean_reward)).reverse();
    none.hidden = scores.length > 0;
    chart.root.hidden = card.hidden = scores.length === 0;
    chart.set({ x: scores.map((e) => e.steps), axis: "step", lines: [{ label: "score", colour: "s0", points: true, y: scores.map((e) => e.mean_reward), low: scores.map((e) => e.ci_low ?? null), high: scores.map((e) => e.ci_high ?? null) }] });
    replace(table, h("table", null, h("thead", null, h("tr", null, ["version", "steps", "score", "interval", "episodes", "length", "at", ""].map((t, i) => h("th", { scope: "col", class: i < 7 ? "num" : "" }, t)))), h("tbody", null, [...scores].reverse().slice(0, 100).map((e) => h("tr", null, h("td", { class: "num" }, count(e.version)), h("td", { class: "num" }, short(e.steps)), h("td", { class: "num" }, number(e.mean_reward)), h("td", { class: "num soft" }, `${number(e.ci_low)} to ${number(e.ci_high)}`), h("td", { class: "num" }, count(e.episodes)), h("td", { class: "num" }, number(e.length)), h("td", { class: "num soft" }, clock(e.time)), h("td", null, e.best === true ? h("span", { class: "tag" }, "best so far") : null))))));
    load();
  };
  root.open = () => { load(); chart.draw(); };

  async function load() {
    let found;
    try { found = await get(`${home}/videos`); } catch { return; }
    if (found.join() === names) return;
    names = found.join();
    filmCard.hidden = !found.length;
    replace(films, found.slice(0, 24).map((name) => h("figure", null, h("video", { src: `${home}/videos/${encodeURIComponent(name)}`, controls: true, loop: true, muted: true, playsinline: true, preload: "metadata", "aria-label": `Version ${Number(name.slice(0, 10))}` }), h("figcaption", null, `version ${count(Number(name.slice(0, 10)))}`))));
  }
  return root;
}
