/* The panel beside the view: the selected function with its shares, callers, callees and hottest lines; or what has most samples. */

import { CATEGORIES, COMMAND, token } from "../model/categories.js";
import { byFunction, outermost } from "../model/trees.js";
import { amount, percent, signed } from "../model/words.js";
import { button, el } from "./elements.js";

const MOST = 6, LINES = 5;

/* The neighbours of a function in the tree, those with most first: [[name, weight of all columns]]. */
export function neighbours(tree, name) {
  const callers = new Map(), callees = new Map();
  const add = (to, key, node) => to.set(key, (to.get(key) || 0) + tree.sum.reduce((sum, column) => sum + column[node], 0));
  for (const i of outermost(tree, name)) if (tree.parent[i] > 0) add(callers, tree.name[tree.parent[i]], i);
  for (let i = 1; i < tree.n; i++) if (tree.width[i] && tree.name[i] !== name && tree.name[tree.parent[i]] === name) add(callees, tree.name[i], i);
  const most = found => [...found].sort((a, b) => b[1] - a[1]);
  return { callers: most(callers), callees: most(callees) };
}

export class Details {
  /* told: {short(f), choose(f), inside(f), sandwich(f), code(f) -> rows [line, share, text] or null, showCode(f), inSeconds(), dark()} */
  constructor(panel, told) { Object.assign(this, { panel, told }); }

  show(tree, names, f) {
    Object.assign(this, { tree, names });
    this.all = tree.totals.reduce((a, b) => a + b, 0) || 1;
    this.functions = byFunction(tree, names.length);
    this.panel.replaceChildren(...(f === null ? this.overview() : this.ofFunction(f)));
  }

  /* With waits, time on the CPU comes first: sleeping threads would fill the list. */
  overview() {
    const { tree } = this, { self } = this.functions, hint = el("p.dim", { textContent: "Select a function anywhere to see its callers, callees and source." });
    const most = (columns, count) => Array.from(this.names, (_, f) => [f, columns.reduce((sum, column) => sum + column[f], 0)])
      .filter(([, weight]) => weight).sort((a, b) => b[1] - a[1]).slice(0, count);
    if (tree.kind !== "parts") return [el("h2", { textContent: "Most time itself" }), this.list(most(self, 8)), hint];
    const [ran, waited] = tree.totals.map(total => total || 1);
    return [
      ...(tree.totals[0] ? [el("h2", { textContent: "Most CPU time itself" }), this.list(most([self[0]], 8), "", ran)] : []),
      ...(tree.totals[1] ? [el("h3", { textContent: "Most time waiting" }), this.list(most([self[1]], 3), "", waited)] : []),
      hint,
    ];
  }

  ofFunction(f) {
    const [name, module, category] = this.names[f], { callers, callees } = neighbours(this.tree, f), sign = el("span.sign");
    sign.style.background = token(Math.min(COMMAND, category), this.told.dark());
    const kind = category === COMMAND ? "process" : CATEGORIES[category];
    return [
      el("h2.function", { id: "details-name", textContent: name }),
      el("p.dim", {}, sign, [kind, module].filter(Boolean).join(" \u00b7 ")),
      this.shares(f),
      el("div.actions", {}, button("Only stacks with it", () => this.told.inside(f)), button("Callers and callees", () => this.told.sandwich(f))),
      ...this.source(f),
      el("h3", { textContent: "Called from" }), this.list(callers.filter(([one]) => this.names[one][2] !== COMMAND).slice(0, MOST), "nothing recorded"),
      el("h3", { textContent: "Calls" }), this.list(callees.slice(0, MOST), "nothing recorded"),
    ];
  }

  shares(f) {
    const { self, total } = this.functions, { tree } = this, rows = [];
    const part = (column, k) => tree.kind === "changes" ? (tree.totals[k] ? column[f] / tree.totals[k] : 0) : column[f] / this.all;
    const row = (title, value, text) => rows.push(el("dt", { textContent: title }), this.bar(value, text));
    if (tree.kind === "changes") {
      const [before, after] = self.map(part);
      row("Self before", before, percent(before));
      row("Self after", after, `${percent(after)} (${signed(after - before)})`);
    } else {
      const sum = columns => columns.reduce((all, column) => all + column[f], 0), inSeconds = this.told.inSeconds();
      row("Self", sum(self) / this.all, `${percent(sum(self) / this.all)}, ${amount(sum(self), inSeconds)}`);
      row("Total", sum(total) / this.all, `${percent(sum(total) / this.all)}, ${amount(sum(total), inSeconds)}`);
      if (tree.kind === "parts") row("Waiting", total[1][f] / this.all, `${percent(total[1][f] / this.all)}, ${amount(total[1][f], true)}`);
    }
    return el("dl.shares", {}, ...rows);
  }

  bar(share, text) {
    const bar = el("dd", { textContent: text });
    bar.style.setProperty("--part", `${Math.min(100, 100 * share)}%`);
    return bar;
  }

  list(pairs, none = "", all = this.all) {
    if (!pairs.length) return el("p.dim", { textContent: none });
    return el("ul.neighbours", {}, ...pairs.map(([f, weight]) => {
      const choose = button("", () => this.told.choose(f), { title: this.names[f][0] }), sign = el("span.sign");
      sign.style.background = token(Math.min(COMMAND, this.names[f][2]), this.told.dark());
      choose.append(el("span.number", { textContent: percent(weight / all) }), sign, el("span.label", { textContent: this.told.short(f) }));
      return el("li", {}, choose);
    }));
  }

  source(f) {
    const lines = this.told.code(f);
    if (!lines) return [];
    const rows = lines.slice(0, LINES).map(([line, share, text]) => (
      el("tr", {}, el("td.number", { textContent: percent(share) }), el("td.number", { textContent: line }), el("td.text", { textContent: text.trim() }))));
    const table = el("table.snippet", { "aria-label": "Hottest lines" }, el("tbody", {}, ...rows));
    return [el("h3", { textContent: "Hottest lines" }), table, button("Show code", () => this.told.showCode(f))];
  }
}
