// A population: who is in which slot, what each member is made of and how good it is, who took over from whom.
import { h, replace } from "../dom.js";
import { number, short, span } from "../format.js";
import { live } from "../live.js";
import { MemberCurves } from "../parts/member_curves.js";
import { decisions, Lineage } from "../parts/lineage.js";
import { members } from "../parts/members.js";
import { meter, pill } from "./runs.js";

export function show(main, name) {
  const home = `/api/population/${encodeURIComponent(name)}`;
  document.title = `${name} – Shoal`;
  replace(document.getElementById("crumbs"), h("a", { href: "/" }, "Runs"), " / population");

  const state = h("span"), sub = h("span", { class: "sub" }), why = h("p", { class: "soft" }), trouble = h("p", { class: "error", role: "alert" });
  const facts = h("div", { class: "facts" }), slots = h("div", { class: "slots" }), known = new Map();
  const curves = new MemberCurves(home), lineage = new Lineage(), decided = h("div", { class: "scroll" });
  const table = members((member) => { curves.light(member); lineage.light(member); });
  const slotCard = h("section", { class: "card", "aria-label": "Slots", hidden: true }, h("h2", null, "Slots"), slots);
  replace(main, h("div", { class: "head" }, h("h1", null, name), state, sub), why, trouble,
    h("div", { class: "card" }, facts), slotCard,
    h("section", { class: "card", "aria-label": "Members" }, h("h2", null, "Members"), table.root),
    curves.root,
    h("section", { class: "card", "aria-label": "Lineage" }, h("h2", null, "Lineage"), lineage.root),
    h("section", { class: "card", "aria-label": "Decisions" }, h("h2", null, "Decisions"), decided));

  live(`${home}/stream`, {
    population(now) {
      replace(state, pill(now));
      sub.textContent = `${now.kind} · ${now.members} members`;
      why.textContent = now.why;
      trouble.textContent = now.trouble;
      document.title = `${now.group === "live" ? "● " : ""}${name} – Shoal`;
      replace(facts, numbers(now));
      slotCard.hidden = !now.slots.length;
      replace(slots, now.slots.map((slot) => box(slot, known)));
    },
    members(told) {
      if (told.all) known.clear();
      for (const member of told.members) known.set(member.member, member);
      const all = [...known.values()];
      table.take(all);
      lineage.take({ members: all });
      curves.take(all);
    },
    lineage(found) { lineage.take(found); replace(decided, decisions(found.decisions, known)); },
    gone() { trouble.textContent = "There is no population of that name here, or no more. What you see is what was read before."; replace(state, h("span", { class: "pill died" }, "gone")); },
  });
}

const fact = (label, value, beside) => h("div", { class: "fact" }, h("div", { class: "label" }, label), h("div", { class: "value" }, value), h("div", { class: "beside", title: beside || null }, beside || "\u00a0"));

function numbers(now) {
  const { best, budget } = now;
  const goal = budget.steps ? `of ${short(budget.steps)}` : "over all members";
  return [
    fact("best score", best ? number(best.mean) : "–", best ? [best.member, best.low !== null && `${number(best.low)} to ${number(best.high)}`].filter(Boolean).join(", ") : "nobody has one yet"),
    fact("members over", `${now.over} of ${now.members}`, now.failed ? `${now.failed} failed` : ""),
    fact("steps", short(now.steps), goal),
    fact("turns", short(now.turns), "that came to their end"),
    fact("elapsed", span(now.elapsed), budget.seconds ? `of ${span(budget.seconds)}` : ""),
    fact("core time", span(now.core_seconds), budget.core_seconds ? `of ${span(budget.core_seconds)}` : "of turns that ended"),
  ];
}

function box(slot, known) {
  if (slot.member === null) return h("div", { class: "slot free" }, h("span", { class: "label" }, `slot ${slot.slot}`), h("span", { class: "faint" }, "free"));
  const member = known.get(slot.member), until = slot.until ?? member?.goal;
  const steps = slot.steps ?? slot.begin ?? 0, begin = slot.begin ?? 0;
  return h("div", { class: "slot" }, h("span", { class: "label" }, `slot ${slot.slot}`), link(slot.member, member),
    h("span", { class: "small soft" }, `${short(steps)}${until ? ` of ${short(until)}` : ""} steps${slot.return !== null ? ` · return ${number(slot.return)}` : ""}`),
    until && until > begin ? meter((steps - begin) / (until - begin)) : null);
}

export const link = (name, member) => (member?.run ? h("a", { href: `/run/${member.run}` }, name) : h("span", null, name));
