/* Forms of the tree of stacks: all frames; plumbing folded to the call that entered it; own code only.

A form has `of`: for each node of the whole tree the node that has its weight. Weights can be moved to a form without growing it anew. */

import { COMMAND, INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME } from "./categories.js";
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
   without a frame 1 if samples that end there get one of their own, with the name of `named`.

   The children of a node have different names. Where frames between a node and others are left out, what comes together in its place may have
   the same name: only there, and below, frames are looked for before they are made. */
function grownForm(tree, near, late, named, ends) {
  if (near.every((node, i) => node === i)) return wholeForm(tree);
  const { n, name, parent } = tree, forest = new Forest(n), to = new Int32Array(n), isMixed = new Uint8Array(n);
  for (let i = 1; i < n; i++) {
    const isFrame = near[i] === i, above = isFrame ? near[parent[i]] : near[i];
    if (isFrame ? above !== parent[i] : late[i] && ends[i]) isMixed[above] = 1;
  }
  for (let i = 1; i < n; i++) {
    if (near[i] !== i) { to[i] = to[near[i]]; continue; }
    const above = near[parent[i]];
    if (isMixed[above]) isMixed[i] = 1;
    to[i] = isMixed[above] ? forest.node(to[above], name[i]) : forest.append(to[above], name[i]);
  }
  for (let i = 1; i < n; i++) if (ends[i] && late[i]) to[i] = forest.node(to[i], named[i]);
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
   if samples end in them, and none if they only lead to other code. */
function foldedForm(tree, names, ends) {
  const isGeneric = generic(names), category = Uint8Array.from(names, name => name[2]);
  const near = new Int32Array(tree.n), late = new Uint8Array(tree.n), named = new Int32Array(tree.n), run = new Int32Array(tree.n).fill(-1);
  for (let i = 1; i < tree.n; i++) {
    const p = tree.parent[i], f = tree.name[i], kind = category[f], before = p ? category[tree.name[p]] : -1, isInRun = before === kind && run[p] >= 0;
    if (isPassedOver(kind) || isGeneric[f] && !(isFolded(kind) && isInRun)) {
      if (isPassedOver(kind)) run[i] = isInRun ? run[p] : f;
      near[i] = near[p];
      late[i] = 1; /* it is made when a sample ends here */
      named[i] = run[i] >= 0 ? run[i] : f;
    } else if (isFolded(kind) && isInRun) {
      run[i] = run[p];
      near[i] = near[p];
    } else {
      near[i] = i;
      run[i] = isFolded(kind) ? f : -1;
    }
  }
  return grownForm(tree, near, late, named, ends);
}

/* Only own code; the weight of all other frames is that of the own frame that led to them. */
function ownForm(tree, names, ends) {
  const near = new Int32Array(tree.n), late = new Uint8Array(tree.n), isOwn = Uint8Array.from(names, ([, , kind]) => +(kind === OWN || kind === COMMAND));
  for (let i = 1; i < tree.n; i++) near[i] = isOwn[tree.name[i]] ? i : near[tree.parent[i]];
  return grownForm(tree, near, late, near, ends);
}

/* A form of a tree; ends: the nodes that samples may end at, a byte each. */
export function formOf(tree, names, form, ends) {
  return form === "all" ? wholeForm(tree) : form === "own" ? ownForm(tree, names, ends) : foldedForm(tree, names, ends);
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
