/* The panel beside the view: the selected function with its shares, callers, callees and hottest lines; or what has most samples. */

import { CATEGORIES, COMMAND, KERNEL, WAITING, token } from "../model/categories.js";
import { byFunction, waitedAt, withInlined } from "../model/function_sums.js";
import { chanceOf, outermost } from "../model/trees.js";
import { waitsOf } from "../model/wait_chains.js";
import { amount, counted, percent, points, sidesOf, threadState } from "../model/words.js";
import { tinted, wordsOf } from "./code.js";
import { button, el } from "./elements.js";

const MOST = 6, MOST_WAITS = 4, LEAST = 0.0005;

/* The neighbours of a function in the tree, those with most first: [[name, weight of these columns]]. Each sample counts once for a neighbour,
   however often the one calls the other on its stack. */
export function neighbours(tree, name, columns = tree.sum) {
  const callers = new Map(), callees = new Map(), until = new Map();
  const add = (to, key, node) => to.set(key, (to.get(key) || 0) + columns.reduce((sum, column) => sum + column[node], 0));
  for (const i of outermost(tree, name)) if (tree.parent[i] > 0) add(callers, tree.name[tree.parent[i]], i);
  for (let i = 1; i < tree.n; i++) {
    const callee = tree.name[i];
    if (tree.name[tree.parent[i]] !== name || callee === name || !tree.width[i] || i < (until.get(callee) || 0)) continue;
    until.set(callee, tree.end[i]);
    add(callees, callee, i);
  }
  const most = found => [...found].filter(([, weight]) => weight).sort((a, b) => b[1] - a[1]);
  return { callers: most(callers), callees: most(callees) };
}

/* The weights of neighbours in each column of time on the CPU and off it, those with most of both first: [[name, [on, off]]]. */
export function inBoth(tree, name) {
  const [on, off] = tree.sum.map(column => neighbours(tree, name, [column])), both = neighbours(tree, name);
  const weights = key => both[key].map(([one]) => [one, [on, off].map(part => (part[key].find(([other]) => other === one) || [one, 0])[1])]);
  return { callers: weights("callers"), callees: weights("callees") };
}

const INLINED = "Inlined code counts for the function that it stands in, as in Code. The other views show it apart.";
/* A name whose end stays where there is no room: names of C++ differ behind their namespaces. */
function ends(name) {
  const place = /^(?:\w+::)+/.exec(name)?.[0].length || 0;
  return place ? [el("span.namespace", { textContent: name.slice(0, place) }), el("span.rest", { textContent: name.slice(place) })] : [name];
}

const IN_WORDS = { ready: "for a CPU" };

/* Where threads waited, those with most first: [[function, weight, state]]: the innermost function outside of the kernel; of stacks without one the
   system call, or else what called the scheduler. */
export function placesOfWaits(tree, names) {
  const found = new Map(), { own: [, own], name } = tree, category = i => names[name[i]][2];
  for (let i = 1; i < tree.n; i++) {
    if (!own[i]) continue;
    const state = category(i) === WAITING ? threadState(names[name[i]][0]) : "";
    const place = waitedAt(tree, names, i), key = `${name[place]} ${state}`;
    if (!found.has(key)) found.set(key, [name[place], 0, IN_WORDS[state] || state]);
    found.get(key)[1] += own[i];
  }
  return [...found.values()].sort((a, b) => b[1] - a[1]);
}

export class Details {
  /* told: {short(f), choose(f), inside(f), sandwich(f), code(f) -> CodeView.snippet, showCode(f), unit(), dark(), measure(),
     parts() -> comparedParts() of changes, inlined() -> numbers of functions, headline() -> namedHottest() or null, waits() -> {waits: of the profile or
     null, pick(thread, tick), time(ticks) -> text}, isOff() -> whether the event is waits, tellsWaits() -> whether the headline does, tells() -> a command} */
  constructor(panel, told) { Object.assign(this, { panel, told }); }

  /* functions: the tree of all frames, the names, and weights by name for each column (chargedWeights); f: the selected one, or null */
  show([tree, names, charged], f) {
    Object.assign(this, { tree, names, charged });
    this.all = tree.totals.reduce((a, b) => a + b, 0) || 1;
    this.functions = byFunction(tree, names);
    this.panel.replaceChildren(...(f === null ? this.overview() : this.ofFunction(f)));
  }

  /* With waits, time on the CPU comes first, as sleeping threads would fill the list, unless the headline tells of waits. */
  overview() {
    const { tree } = this, standing = withInlined(tree, this.names, this.told.inlined());
    const hint = el("p.dim", { textContent: "Select a function anywhere to see its callers, callees and source." });
    const most = (columns, count) => Array.from(this.names, (_, f) => [f, columns.reduce((sum, column) => sum + column[f], 0)])
      .filter(([, weight]) => weight).sort((a, b) => b[1] - a[1]).slice(0, count);
    if (tree.kind === "changes") {
      const sides = sidesOf(tree).join(" to ");
      const said = ({ title, compared }) => `${title}, ${sides}, in points${compared.of ? ` of ${compared.of}` : ""}`;
      const list = (part, i) => [el(i ? "h3" : "h2", { textContent: said(part) }), this.changes(part.weights, part.compared)];
      return [...this.told.parts().flatMap(list), hint];
    }
    const itself = (what, columns, all) => [...this.ofHeadline(most(columns, 8)), el("h2", { textContent: `Most ${what} itself` }),
      this.list(this.marked(most(columns, 8)), "", all), ...(this.told.inlined().length ? [el("p.dim", { textContent: INLINED })] : [])];
    if (tree.kind !== "parts") return [...itself(this.told.measure(), standing), hint];
    const [ran, waited] = tree.totals.map(total => total || 1);
    const ofCpu = tree.totals[0] ? itself("CPU time", [standing[0]], ran) : [], first = this.told.tellsWaits();
    const places = tree.totals[1] ? [el(first ? "h2" : "h3", { textContent: "Most time waiting" }), this.list(placesOfWaits(tree, this.names).slice(0, 4), "", waited)] : [];
    return [...(first ? [...places, ...ofCpu] : [...ofCpu, ...places]), hint];
  }

  /* The headline's function, if it is not among those of a list. */
  ofHeadline(pairs) {
    const named = this.told.headline();
    if (!named || pairs.some(([f]) => f === named.f)) return [];
    return [el("h2", { textContent: `In the headline: ${named.shown}` }), this.list([[named.f, named.share]], "", 1)];
  }

  /* Say which function of a list is that of the headline, which may have a shorter name there. */
  marked(pairs) {
    const named = this.told.headline();
    return pairs.map(([f, weight]) => named && f === named.f ? [f, weight, "headline"] : [f, weight]);
  }

  /* The functions whose share changed most, of changes that are more than chance. weights: by side and function. */
  changes(weights, compared) {
    const { tree } = this, part = (k, f) => tree.totals[k] ? weights[k][f] / tree.totals[k] : 0;
    const matters = shares => Math.abs(shares[1] - shares[0]) > Math.max(LEAST, chanceOf(shares, compared));
    const found = Array.from(this.names, (_, f) => [f, [part(0, f), part(1, f)]]).filter(([, shares]) => matters(shares))
      .map(([f, [before, after]]) => [f, after - before]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 8);
    return this.list(found, "no function more than by chance", 1, points);
  }

  ofFunction(f) {
    const [name, module, category] = this.names[f], { tree } = this, sign = el("span.sign"), isCompared = tree.kind === "changes", { total } = this.functions;
    /* of a function that runs and waits, the shares of both; of one that only waits, the waits; of changes, those of the side after, if it is there */
    const isBoth = tree.kind === "parts" && total[0][f] > 0 && total[1][f] > 0, column = tree.kind === "parts" ? +!total[0][f] : isCompared ? +!!total[1][f] : -1;
    const all = isBoth ? tree.totals : column < 0 ? this.all : tree.totals[column] || 1;
    const side = isBoth ? ": CPU time, waits" : isCompared ? `, ${sidesOf(tree)[column]}` : tree.kind === "parts" && column ? ": waits" : "";
    const { callers, callees } = isBoth ? inBoth(tree, f) : neighbours(tree, f, column < 0 ? tree.sum : [tree.sum[column]]);
    sign.style.background = token(Math.min(COMMAND, category), this.told.dark());
    const kind = category === COMMAND ? "process" : CATEGORIES[category];
    return [
      el("h2.function", { id: "details-name", textContent: this.told.short(f), title: name }),
      /* names of Python and JavaScript are whole with their file, which follows */
      ...(name === this.told.short(f) || module && name.includes(module) ? [] : [el("p.whole", { textContent: name })]),
      el("p.dim", {}, sign, [kind, module].filter(Boolean).join(" \u00b7 ")),
      el("p.dim", { textContent: "In all stacks with it:" }),
      this.shares(f),
      ...this.waitFacts(f),
      el("div.actions", {}, button("Only stacks with it", () => this.told.inside(f)), button("Callers and callees", () => this.told.sandwich(f))),
      ...this.source(f),
      el("h3", { textContent: `Called from${side}` }), this.list(callers.filter(([one]) => this.names[one][2] !== COMMAND).slice(0, MOST), "nothing recorded", all),
      el("h3", { textContent: `Calls${side}` }), this.list(callees.slice(0, MOST), "nothing recorded", all),
    ];
  }

  /* What threads waited for in a function, and who woke them; or the command that tells, where a function waits. */
  waitFacts(f) {
    const { waits, pick, time } = this.told.waits(), [name, , category] = this.names[f], { self, total } = this.functions, { kind } = this.tree;
    const columns = category === KERNEL ? total : self; /* the wait in a system call counts for what made the call */
    const waited = kind === "parts" ? columns[1][f] : this.told.isOff() ? columns.reduce((sum, column) => sum + column[f], 0) : 0;
    if (!waits) return category === WAITING || waited ? [el("p.tells", {}, "What was waited for, and who ended it: ", el("kbd", { textContent: this.told.tells() }))] : [];
    const threadName = thread => `${waits.threads[thread][1]} (${waits.threads[thread][0]})`, found = waitsOf(waits, name).slice(0, MOST_WAITS);
    const text = ({ thread, text, waker, time: sum, count }) =>
      `${time(sum)}: ${threadName(thread)} ${waits.texts[text]}, ${counted(count, "time")}${waker >= 0 ? `, ended by ${threadName(waker)}` : ""}`;
    const row = one => el("li", {}, button(text(one), () => pick(one.thread, waits.begin[one.longest] + waits.length[one.longest] / 2), { className: "evidence" }));
    return found.length ? [el("h3", { textContent: "Waits in it, and who ended them" }), el("ul.stories", {}, ...found.map(row))] : [];
  }

  shares(f) {
    const { self, total } = this.functions, { tree, charged } = this, rows = [];
    const part = (column, k) => tree.totals[k] ? column[f] / tree.totals[k] : 0;
    const row = (title, value, text) => rows.push(el("dt", { textContent: title }), this.bar(value, text));
    if (tree.kind === "changes") {
      const sides = sidesOf(tree), both = (title, columns) => {
        const shares = columns.map(part), texts = columns.map((column, k) => `${percent(shares[k])}, ${amount(column[f], this.told.unit())}`);
        row(`${title} ${sides[0]}`, shares[0], texts[0]);
        row(`${title} ${sides[1]}`, shares[1], `${texts[1]} (${points(shares[1] - shares[0])} points)`);
      };
      both("Self", self);
      if (charged && charged.some(column => column[f])) both("With libraries", charged);
      both("Total", total);
    } else {
      const unit = this.told.unit();
      const of = (title, columns, k = 0) => row(title, part(columns[k], k), `${percent(part(columns[k], k))}, ${amount(columns[k][f], unit)}`);
      const standing = withInlined(tree, this.names, this.told.inlined());
      of("Self", self);
      if (standing[0][f] > self[0][f]) of("With inlined code", standing);
      if (charged && charged[0][f]) of("With libraries", charged);
      of("Total", total);
      if (tree.kind === "parts") of("Waiting", total, 1);
    }
    return el("dl.shares", {}, ...rows);
  }

  bar(share, text) {
    const bar = el("dd", { textContent: text });
    bar.style.setProperty("--part", `${Math.min(100, 100 * share)}%`);
    return bar;
  }

  /* pairs: [function, its weight, or those of columns, state of a thread that waits there]; all: the weight that is the whole, or those of columns */
  list(pairs, none = "", all = this.all, text = percent) {
    if (!pairs.length) return el("p.dim", { textContent: none });
    return el("ul.neighbours", {}, ...pairs.map(([f, weight, state]) => {
      const choose = button("", () => this.told.choose(f), { title: this.names[f][0] }), sign = el("span.sign");
      sign.style.background = token(Math.min(COMMAND, this.names[f][2]), this.told.dark());
      const shares = [weight].flat().map((one, k) => el("span.number", { textContent: text(one / ([all].flat()[k] || 1)) }));
      choose.append(...shares, sign, el("span.label", {}, ...ends(this.told.short(f))), ...(state ? [el("span.state.dim", { textContent: state })] : []));
      return el("li", {}, choose);
    }));
  }

  /* The hottest lines, without the indentation that all have. */
  source(f) {
    const found = this.told.code(f);
    if (!found) return [];
    const { of, isCharged, lines } = found, texts = lines.filter(line => line && line[2].trim());
    const indent = Math.min(...texts.map(([, , text]) => text.length - text.trimStart().length));
    const rows = lines.map(line => {
      if (!line) return el("tr.gap", {}, el("td.share"), el("td.line", { textContent: "\u22ee" }), el("td.text"));
      const [number, share, text, kinds] = line, row = el("tr", {}, el("td.share", { textContent: share ? percent(share) : "" }), el("td.line", { textContent: number }));
      row.append(el("td.text", {}, ...tinted(wordsOf(text, kinds), indent)));
      if (share) row.style.setProperty("--hot", `${Math.round(100 * Math.min(1, 0.12 + 1.1 * share))}%`);
      return row;
    });
    const box = el("div.snippet-box", { tabIndex: 0, role: "region", "aria-label": "Hottest lines" }, el("table.snippet", {}, el("tbody", {}, ...rows)));
    const whole = of ? `${of}, which it is inlined into` : isCharged ? "its samples with libraries" : "its own samples", title = `Hottest lines, as shares of ${whole}`;
    return [el("h3", { textContent: title }), box, button("Show code", () => this.told.showCode(f))];
  }
}
