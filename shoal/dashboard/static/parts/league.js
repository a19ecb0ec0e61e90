// A league: members by strength with their intervals, what they earn against each other, and whom players meet.
import { get, h, replace, svg } from "../dom.js";
import { short } from "../format.js";

const MOST = 40; // members in the table of earnings

export function league(home) {
  const members = h("div", { class: "scroll" }), earnings = h("div", { class: "scroll" }), meets = h("div");
  const root = h("div", null,
    h("div", { class: "card" }, h("h2", null, "Members"), members),
    h("div", { class: "card" }, h("h2", null, "What each row earns from each column"), earnings),
    h("div", { class: "card" }, h("h2", null, "Whom players meet"), meets));
  let timer = 0;
  async function load() {
    let found;
    try { found = await get(`${home}/league`); } catch { return; }
    if (!found || !found.members.length) { replace(members, h("p", { class: "soft" }, "Nobody has played yet.")); replace(earnings); replace(meets); return; }
    replace(members, strengths(found.members));
    replace(earnings, table(found));
    replace(meets, Object.entries(found.odds).map(([player, odds]) => opponents(player, odds)));
  }
  root.open = () => { load(); clearInterval(timer); timer = setInterval(() => { if (!document.hidden) load(); }, 4000); };
  root.close = () => clearInterval(timer);
  return root;
}

function strengths(members) {
  const low = Math.min(...members.map((each) => each.interval[0])), high = Math.max(...members.map((each) => each.interval[1]));
  const place = (points) => (high > low ? (200 * (points - low)) / (high - low) : 100);
  const heads = ["member", "role", "rating", "95 %", "", "points", "games", "frozen after"];
  return h("table", null, h("thead", null, h("tr", null, heads.map((text, i) => h("th", { scope: "col", class: [2, 5, 6, 7].includes(i) ? "num" : "" }, text)))),
    h("tbody", null, members.map((each) => h("tr", null,
      h("td", null, each.learns ? h("strong", null, each.member) : each.member), h("td", { class: "soft" }, each.role.replace("_", " ")),
      h("td", { class: "num" }, Math.round(each.rating)), h("td", { class: "soft num" }, `${Math.round(each.interval[0])} to ${Math.round(each.interval[1])}`),
      h("td", null, svg("svg", { class: "interval", viewBox: "-4 0 208 12", width: 208, height: 12, "aria-hidden": "true" },
        svg("line", { x1: place(each.interval[0]), x2: place(each.interval[1]), y1: 6, y2: 6 }), svg("circle", { cx: place(each.rating), cy: 6, r: 3.5 }))),
      h("td", { class: "num" }, each.win_rate.toFixed(2)), h("td", { class: "num" }, short(each.games)),
      h("td", { class: "num soft" }, each.learns ? "it learns" : `${short(each.steps)} steps`)))));
}

function table(found) {
  const names = found.members.slice(0, MOST).map((each) => each.member);
  const earned = found.payoffs.slice(0, MOST).map((row) => row.slice(0, MOST));
  const most = Math.max(1e-9, ...earned.flat().filter((value) => value !== null).map(Math.abs));
  const cell = (value) => {
    const shown = h("td", { class: "num payoff" }, value === null ? "–" : value.toFixed(2));
    if (value !== null) { shown.classList.add(value >= 0 ? "wins" : "loses"); shown.style.setProperty("--much", Math.min(1, Math.abs(value) / most)); }
    return shown;
  };
  return h("table", { class: "payoffs" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, ""), names.map((name) => h("th", { scope: "col", class: "num" }, name)))),
    h("tbody", null, names.map((name, i) => h("tr", null, h("th", { scope: "row" }, name), earned[i].map(cell)))));
}

function opponents(player, odds) {
  const ranked = Object.entries(odds).sort((a, b) => b[1] - a[1]).slice(0, MOST);
  return h("div", null, h("h3", null, player), ranked.map(([name, share]) => {
    const bar = h("i", { class: "odds" });
    bar.style.width = `${Math.max(0.5, 100 * share)}%`;
    return h("div", { class: "meets" }, h("span", null, name), h("span", { class: "track" }, bar), h("span", { class: "num" }, `${(100 * share).toFixed(1)} %`));
  }));
}
