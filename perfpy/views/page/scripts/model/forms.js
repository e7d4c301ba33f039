/* Forms of the tree of stacks: all frames; plumbing folded to the call that entered it; own code only.

A form has `of`: for each node of the whole tree the node that has its weight. Weights can be moved to a form without growing it anew. */

import { COMMAND, INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME, WAITING } from "./categories.js";
import { Forest } from "./trees.js";

export const FORMS = ["all", "folded", "own"];

/* Frames between a program and the system call or fault that entered the kernel, which say nothing themselves. */
const ENTRIES = [
  "entry_", "do_syscall_", "do_int80", "x64_sys_call", "ia32_sys_call", "asm_", "_*irqentry",
  "ret_from_fork", "el0t?_", "el0_svc", "invoke_syscall", "do_el0_svc", "syscall_exit", "secondary_startup",
  "start_secondary",
];
const ENTRY = new RegExp(`^(${ENTRIES.join("|")})`);

function generic(names) {
  return Uint8Array.from(names, ([name, , category]) => +(category === KERNEL && ENTRY.test(name)));
}

const isFolded = category => category === LIBRARY || category === KERNEL;
const isPassedOver = category => category === RUNTIME || category === INTERPRETER;

/* Grows a form. near: for each node itself if it has a frame in the form, else the nearest outer node with one, 0 for the root; late: for nodes
   without a frame 1 if samples that end there get one of their own, with the name of `named`; via: for nodes the name of the frame of such samples
   that they are in, too, or -1.

   The children of a node have different names. Where frames between a node and others are left out, what comes together in its place may have
   the same name: only there, and below, frames are looked for before they are made. */
function grownForm(tree, near, late, named, ends, via = null) {
  if (near.every((node, i) => node === i)) return wholeForm(tree);
  const within = (place, i) => via && via[i] >= 0 ? forest.node(place, via[i]) : place;
  const { n, name, parent } = tree, forest = new Forest(n), to = new Int32Array(n), isMixed = new Uint8Array(n);
  for (let i = 1; i < n; i++) {
    const isFrame = near[i] === i, above = isFrame ? near[parent[i]] : near[i];
    if (isFrame ? above !== parent[i] : late[i] && ends[i]) isMixed[above] = 1;
  }
  for (let i = 1; i < n; i++) {
    if (near[i] !== i) { to[i] = to[near[i]]; continue; }
    const above = near[parent[i]];
    if (isMixed[above]) isMixed[i] = 1;
    to[i] = isMixed[above] ? forest.node(within(to[above], i), name[i]) : forest.append(to[above], name[i]);
  }
  for (let i = 1; i < n; i++) if (ends[i] && late[i]) to[i] = forest.node(within(to[i], i), named[i]);
  const { of, ...grown } = forest.finished();
  for (let i = 0; i < n; i++) to[i] = of[to[i]];
  return { ...grown, of: to };
}

function wholeForm(tree) {
  const of = new Int32Array(tree.n);
  for (let i = 0; i < tree.n; i++) of[i] = i;
  return { ...tree, of };
}

/* Runs of library or kernel frames become the frame that entered them. Runs of runtime and interpreter frames become one frame
   if samples end in them, and none if they only lead to other code. A function of the runtime that has such a frame has it also for what the
   kernel does below it: faults, interrupts and waits. Of the functions that stay no frame is left out, and a run goes on from it. */
function foldedForm(tree, names, ends, stays) {
  const isGeneric = generic(names), category = Uint8Array.from(names, name => name[2]), column = () => new Int32Array(tree.n).fill(-1);
  const near = new Int32Array(tree.n), late = new Uint8Array(tree.n), named = new Int32Array(tree.n), run = column(), head = column(), isUsed = new Uint8Array(tree.n);
  for (let i = 1; i < tree.n; i++) {
    const p = tree.parent[i], f = tree.name[i], kind = category[f], before = p ? category[tree.name[p]] : -1, isInRun = before === kind && run[p] >= 0;
    if (stays[f]) {
      near[i] = i;
      run[i] = isGeneric[f] ? -1 : f;
    } else if (isPassedOver(kind) && isInRun && head[p] < 0) { /* in a function that stays */
      run[i] = run[p];
      near[i] = near[p];
    } else if (isPassedOver(kind) || isGeneric[f] && !(isFolded(kind) && isInRun)) {
      if (isPassedOver(kind)) [run[i], head[i]] = isInRun ? [run[p], head[p]] : [f, i];
      near[i] = near[p];
      late[i] = 1; /* it is made when a sample ends here */
      named[i] = run[i] >= 0 ? run[i] : f;
      if (ends[i] && kind === RUNTIME) isUsed[head[i]] = 1;
    } else if (isFolded(kind) && isInRun) {
      run[i] = run[p];
      near[i] = near[p];
    } else {
      near[i] = i;
      run[i] = isFolded(kind) ? f : -1;
    }
  }
  const via = column();
  for (let i = 1; i < tree.n; i++) {
    const p = tree.parent[i], kind = category[tree.name[i]];
    if (kind !== KERNEL && kind !== WAITING || near[p] === p && p) continue;
    via[i] = head[p] >= 0 ? isUsed[head[p]] ? named[p] : -1 : late[p] ? via[p] : -1;
  }
  return grownForm(tree, near, late, named, ends, via);
}

/* Only own code; the weight of all other frames is that of the own frame that led to them. */
function ownForm(tree, names, ends, stays) {
  const near = new Int32Array(tree.n), late = new Uint8Array(tree.n), isOwn = Uint8Array.from(names, ([, , kind], f) => +(stays[f] || kind === OWN || kind === COMMAND));
  for (let i = 1; i < tree.n; i++) near[i] = isOwn[tree.name[i]] ? i : near[tree.parent[i]];
  return grownForm(tree, near, late, near, ends);
}

/* A form of a tree; ends: the nodes that samples may end at, a byte each; kept: functions that keep all their frames. */
export function formOf(tree, names, form, ends, kept = []) {
  const stays = new Uint8Array(names.length);
  for (const f of kept) stays[f] = 1;
  return form === "all" ? wholeForm(tree) : (form === "own" ? ownForm : foldedForm)(tree, names, ends, stays);
}

/* The functions that the headline names. */
export function headlined({ headline = [], names }) {
  const said = new Set(headline.flatMap(one => one.names.map(([, name]) => name)));
  return names.flatMap(([name, , category], f) => said.has(name) && category !== COMMAND ? [f] : []);
}

/* By function: 0 if the form shows all its frames, 1 if it lacks some, 2 if it has none. */
export function hiddenIn(form, tree, names) {
  const hidden = new Uint8Array(names.length);
  for (let i = 1; i < tree.n; i++) if (form.name[form.of[i]] !== tree.name[i]) hidden[tree.name[i]] = 2;
  for (const f of form.name) if (hidden[f]) hidden[f] = 1;
  return hidden;
}

/* A form in which a function that is on its own stack again is one with its outermost frame, as if it had not called itself, nor what lies between. */
export function merged(form, names) {
  const forest = new Forest(form.n), to = new Int32Array(form.n), outer = new Int32Array(names).fill(-1), open = [];
  for (let i = 1; i < form.n; i++) {
    const f = form.name[i];
    while (open.length >= form.depth[i]) { const [closed, before] = open.pop(); outer[closed] = before; }
    open.push([f, outer[f]]);
    to[i] = outer[f] >= 0 ? outer[f] : forest.node(to[form.parent[i]], f);
    outer[f] = to[i];
  }
  const grown = forest.finished();
  return { ...grown, of: form.of.map(node => grown.of[to[node]]) };
}

/* The nodes at which samples of any event end: a byte each. */
export function endsOf(profile) {
  const ends = new Uint8Array(profile.tree.n);
  for (const event of profile.events) for (const samples of event.samples) {
    for (const node of (samples.sums || samples).stacks.node) ends[node + 1] = 1;
  }
  return ends;
}

/* The name of each node's frame in the form, without growing it: what a stack shows, outermost first. */
export function stackOf(form, node) {
  const found = [];
  for (let i = node; i > 0; i = form.parent[i]) found.push(i);
  return found.reverse();
}

/* The forms of a profile. Folding never hides what is selected or found: for functions that it would hide a form is grown that keeps them. */
export class Forms {
  constructor(profile) {
    Object.assign(this, { profile, made: new Map(Object.entries(profile.forms)), hidden: new Map(), merged: new WeakMap(), grown: null, grownOf: "" });
  }

  get(kind) { return this.made.get(kind); }

  setOwn(form) { this.made.set("own", form); }

  /* The form of a state. hits: by function, of a search, or null; whole: a function that is shown with all its callers and callees, or -1. */
  of({ form, recursion, chosen }, hits, whole = -1) {
    const kept = form === "all" ? [] : this.lacking(form, chosen, hits, whole), plain = kept.length ? this.growing(form, kept) : this.get(form);
    if (recursion !== "merged") return plain;
    if (!this.merged.has(plain)) this.merged.set(plain, merged(plain, this.profile.names.length));
    return this.merged.get(plain);
  }

  /* The functions that the form would hide: the selected one, which a reader may have clicked, only if it has no frame. Own code stays own code. */
  lacking(form, chosen, hits, whole) {
    const { tree, names } = this.profile, plain = this.get(form);
    if (!this.hidden.has(plain)) this.hidden.set(plain, hiddenIn(plain, tree, names));
    const hidden = this.hidden.get(plain), found = [], isWanted = f => form === "folded" && (hits && hits[f] || f === chosen && hidden[f] === 2);
    for (let f = 0; f < names.length; f++) if (hidden[f] && (f === whole || isWanted(f))) found.push(f);
    return found;
  }

  growing(form, kept) {
    const { tree, names } = this.profile, key = [form, ...kept].join(), said = form === "folded" ? headlined(this.profile) : [];
    this.ends ||= endsOf(this.profile);
    if (key !== this.grownOf) Object.assign(this, { grownOf: key, grown: formOf(tree, names, form, this.ends, [...said, ...kept]) });
    return this.grown;
  }
}
