// The few numbers that matter, and how near each stop rule is.
import { h, replace } from "../dom.js";
import { count, number, short, span } from "../format.js";
import { meter } from "../pages/runs.js";

const fact = (label, value, beside) => h("div", { class: "fact" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "beside", title: beside || null }, beside || "\u00a0"));

export function facts() {
  const strip = h("div", { class: "facts" }), rules = h("div", { class: "rules" });
  return {
    root: h("div", null, strip, rules),
    take(run) {
      const live = run.group === "live";
      replace(strip,
        fact("return", number(run.last), "last 100 episodes"),
        fact("score", run.score ? number(run.score.mean) : "–", run.score && run.score.low !== null ? `${number(run.score.low)} to ${number(run.score.high)}` : run.score ? "greedy episodes" : "nothing evaluated yet"),
        fact("steps", short(run.steps), run.goal ? `of ${short(run.goal)}` : ""),
        fact("steps/s", count(run.fps), live ? "now" : "in the end"),
        fact("elapsed", span(run.elapsed), ""),
        live ? fact("time left", run.left === null ? "–" : span(run.left), "at most") : null);
      const nearest = run.rules.reduce((best, rule) => (!best || rule.fraction > best.fraction ? rule : best), null);
      replace(rules, run.rules.map((rule) => h("div", { class: `rule${rule === nearest ? " nearest" : ""}` }, h("span", null, rule.name), meter(rule.fraction), h("span", { class: "text" }, rule.text))));
    },
  };
}
