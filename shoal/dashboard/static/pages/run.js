// One run: what it does now, its curves, its evaluations, and everything it left in its folder.
import { h, replace } from "../dom.js";
import { live } from "../live.js";
import { checkpoints } from "../parts/checkpoints.js";
import { Curves } from "../parts/curves.js";
import { evaluations } from "../parts/evaluations.js";
import { events } from "../parts/events.js";
import { facts } from "../parts/facts.js";
import { league } from "../parts/league.js";
import { logs } from "../parts/logs.js";
import { orders } from "../parts/orders.js";
import { pipeline } from "../parts/pipeline.js";
import { settings } from "../parts/settings.js";
import { watch } from "../parts/watch.js";
import { pill } from "./runs.js";

export function show(main, experiment, trial) {
  const name = `${experiment}/${trial}`, home = `/api/run/${encodeURIComponent(experiment)}/${encodeURIComponent(trial)}`;
  document.title = `${name} – Shoal`;
  const crumbs = document.getElementById("crumbs");
  replace(crumbs, h("a", { href: "/" }, "Runs"), " / ", h("a", { href: `/?q=${encodeURIComponent(`name=${experiment}`)}` }, experiment));

  const state = h("span"), sub = h("span", { class: "sub" }), why = h("p", { class: "soft" }), gone = h("p", { class: "error", role: "alert" });
  const commands = orders(home), top = facts(), shape = pipeline();
  const curves = new Curves(home);
  const parts = {
    overview: ["Overview", h("div", null, h("div", { class: "card" }, h("h2", null, "Pipeline"), shape.root), curves.main)],
    metrics: ["All metrics", curves.all],
    evaluations: ["Evaluations", evaluations(home)],
    league: ["League", league(home)],
    watch: ["Watch", watch(home)],
    events: ["Events", events()],
    logs: ["Logs", logs(home)],
    settings: ["Settings", settings(home)],
    checkpoints: ["Checkpoints", checkpoints(home)],
  };
  const tabs = tabbed(parts);
  replace(main, h("div", { class: "head" }, h("h1", null, trial), state, sub, commands.root), why, gone, h("div", { class: "card" }, top.root), tabs);

  live(`${home}/stream`, {
    run(run) {
      gone.textContent = "";
      if (run.population) replace(crumbs, h("a", { href: "/" }, "Runs"), " / ", h("a", { href: `/population/${encodeURIComponent(experiment)}` }, experiment));
      replace(state, pill(run));
      sub.textContent = [run.algorithm, run.env, run.seed && `seed ${run.seed}`].filter(Boolean).join(" · ");
      why.textContent = run.group !== "live" ? run.why : "";
      document.title = `${run.group === "live" ? "● " : ""}${name} – Shoal`;
      top.take(run);
      shape.take(run.pipeline, run.group);
      commands.take(run);
      curves.take(run);
      document.getElementById("tab-league").hidden = !run.settings.league;
      for (const [, part] of Object.values(parts)) part.take?.(run);
    },
    anew() { curves.load(); },
    rows(rows) { curves.add(rows); },
    events(list) { for (const [, part] of Object.values(parts)) part.tell?.(list); },
    gone() { gone.textContent = "This run's folder is gone. What you see is what was read before."; replace(state, h("span", { class: "pill died" }, "gone")); },
  });
}

function tabbed(parts) {
  const keys = Object.keys(parts);
  const first = keys.includes(location.hash.slice(1)) ? location.hash.slice(1) : keys[0];
  const panels = keys.map((key) => h("section", { id: `panel-${key}`, role: "tabpanel", "aria-labelledby": `tab-${key}`, tabindex: -1 }, parts[key][1]));
  const buttons = keys.map((key) => h("button", { type: "button", id: `tab-${key}`, role: "tab", "aria-controls": `panel-${key}`, onclick: () => choose(key) }, parts[key][0]));
  function choose(key, focus) {
    keys.forEach((each, i) => {
      const on = each === key, part = parts[each][1];
      buttons[i].setAttribute("aria-selected", String(on));
      buttons[i].tabIndex = on ? 0 : -1;
      const was = !panels[i].hidden && panels[i].dataset.seen;
      panels[i].hidden = !on;
      if (on) { panels[i].dataset.seen = "yes"; part.open?.(); if (focus) buttons[i].focus(); } else if (was) part.close?.();
    });
    history.replaceState(null, "", key === keys[0] ? location.pathname : `#${key}`);
  }
  const bar = h("div", { class: "tabs", role: "tablist", onkeydown: (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move) return;
    const offered = keys.filter((key, i) => !buttons[i].hidden), at = offered.findIndex((key) => !panels[keys.indexOf(key)].hidden);
    choose(offered[(at + move + offered.length) % offered.length], true);
  } }, buttons);
  buttons[keys.indexOf("league")].hidden = first !== "league"; // until the run says that it has one
  queueMicrotask(() => choose(first));
  return h("div", null, bar, panels);
}
