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

/* Runs of library or kernel frames become the frame that entered them. Runs of runtime and interpreter frames become one frame
   if samples end in them, and none if they only lead to other code. */
function foldedForm(tree, names) {
  const forest = new Forest(tree.n), isGeneric = generic(names), category = Uint8Array.from(names, name => name[2]);
  const to = new Int32Array(tree.n), attach = new Int32Array(tree.n), run = new Int32Array(tree.n).fill(-1);
  for (let i = 1; i < tree.n; i++) {
    const p = tree.parent[i], f = tree.name[i], kind = category[f], before = p ? category[tree.name[p]] : -1;
    if (isPassedOver(kind)) {
      run[i] = before === kind && run[p] >= 0 ? run[p] : f;
      attach[i] = attach[p];
      to[i] = -1; /* made when a sample ends here */
    } else if (isFolded(kind) && before === kind && run[p] >= 0) {
      run[i] = run[p];
      to[i] = attach[i] = attach[p];
    } else if (isGeneric[f]) {
      attach[i] = attach[p];
      to[i] = -1;
      run[i] = -1;
    } else {
      to[i] = attach[i] = forest.node(attach[p], f);
      run[i] = isFolded(kind) ? f : -1;
    }
  }
  return { forest, place: i => to[i] >= 0 ? to[i] : to[i] = forest.node(attach[i], run[i] >= 0 ? run[i] : tree.name[i]) };
}

/* Only own code; the weight of all other frames is that of the own frame that led to them. */
function ownForm(tree, names) {
  const forest = new Forest(tree.n), to = new Int32Array(tree.n);
  for (let i = 1; i < tree.n; i++) {
    const kind = names[tree.name[i]][2], above = to[tree.parent[i]];
    to[i] = kind === OWN || kind === COMMAND ? forest.node(above, tree.name[i]) : above;
  }
  return { forest, place: i => to[i] };
}

/* A form of a tree; ends: the nodes that samples may end at, a byte each. */
export function formOf(tree, names, form, ends) {
  if (form === "all") return { ...tree, of: Int32Array.from({ length: tree.n }, (_, i) => i) };
  const { forest, place } = form === "own" ? ownForm(tree, names) : foldedForm(tree, names);
  const to = new Int32Array(tree.n);
  for (let i = 1; i < tree.n; i++) if (ends[i]) to[i] = place(i);
  const grown = forest.finished();
  return { ...grown, of: to.map(node => grown.of[node]) };
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
