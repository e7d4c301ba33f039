/* What a selection says in a sentence: the function that its time is in, as the headline does for the whole recording; of two ranges, what
   differs between them beyond chance. */

import { chance, chanceOf } from "./trees.js";
import { counted, duration } from "./words.js";

/* fewer samples say nothing; a function below OUTSTANDING does not stand out */
const FEWEST = 20, OUTSTANDING = 0.1;

export const WAITS = "waiting time";

const round = share => !share ? "none" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const places = weights => weights.reduce((best, weight, f) => weight > weights[best] ? f : best, 0);

/* The sentence of a range. weights: by function, of the range and of the whole recording (chargedWeights); samples: of the range;
   total: the weight of the range; name: f => text; of: "CPU time", WAITS or "events"; cpus: how many were used, or of waits how many threads
   waited at a time, null if that is not known. */
export function verdictOf({ weights, wholeWeights, samples, total, wholeTotal, name, of, cpus }) {
  if (samples < FEWEST) return samples ? `Only ${counted(samples, "sample")} here: too few to tell.` : "No samples here.";
  const f = places(weights), share = weights[f] / (total || 1), margin = chance([share, 0], [samples, 1]), does = of === WAITS ? "threads waited at a time" : "CPUs were used";
  const used = cpus === null ? "" : `${cpus.toFixed(2)} ${does}. `;
  if (share - margin < OUTSTANDING) return `${used}No function stands out${share ? `: the largest, ${name(f)}, has ${round(share)} of the ${of}` : ""}.`;
  const whole = wholeWeights[f] / (wholeTotal || 1), is = Math.abs(share - whole) > margin ? `, ${round(whole)} in the whole recording` : "";
  return `${used}${round(share)} of the ${of} is in ${name(f)} and what it calls (\u00b1 ${Math.max(0.1, 100 * margin).toFixed(margin < 0.1 ? 1 : 0)} points${is}).`;
}

/* What a sentence of two ranges begins with: how many CPUs they used, or how many threads waited. */
function sizesOf({ of, cpus, lengths }) {
  const [a, b] = cpus.map(one => one.toFixed(2)), [first, second] = lengths.map(duration);
  return of === WAITS ? `In A ${a} threads waited at a time, in B ${b}. ` : `A used ${a} CPUs for ${first}, B ${b} for ${second}. `;
}

/* The sentence of two ranges. weights: by function (comparedWeights); name: f => text that says which of its weights that is; totals, samples, cpus (null if
   weights are no time), lengths (ns): of A and of B; grain: of time, as in trees.js. Time is compared as such, as parts of the ranges; other weights as
   shares of each side. */
export function verdictOfBoth({ weights, totals, samples, name, of, cpus, lengths, grain = null }) {
  const sizes = cpus ? sizesOf({ of, cpus, lengths }) : "", least = Math.min(...samples), wholes = grain ? lengths : totals;
  const few = least ? `only ${counted(least, "sample")}` : "no samples";
  if (!grain && least < FEWEST) return `${sizes}${samples[0] < samples[1] ? "A" : "B"} has ${few}: too few to compare.`;
  const changes = [];
  for (let f = 0; f < weights[0].length; f++) {
    const [a, b] = weights.map((column, k) => column[f] / (wholes[k] || 1));
    if ((a || b) && Math.abs(b - a) > chanceOf([a, b], { grain, samples }) && Math.abs(b - a) > 0.005) changes.push([b - a, f, a, b]);
  }
  if (!changes.length) return `${sizes}No function differs between A and B${grain && !grain[0] ? "" : " beyond chance"}.`;
  const time = (side, k, f, share) => share ? `${duration(weights[k][f])} in ${side} (${round(share)} of its length)` : `none in ${side}`;
  const said = ([, f, a, b]) => grain ? `${name(f)}: ${time("A", 0, f, a)}, ${time("B", 1, f, b)}`
    : `${name(f)}: ${round(a)} of the ${of} in A, ${round(b)} in B`;
  const more = changes.filter(([change]) => change > 0).sort((x, y) => y[0] - x[0])[0], less = changes.filter(([change]) => change < 0).sort((x, y) => x[0] - y[0])[0];
  const what = grain ? ` ${of}` : "";
  return `${sizes}${[more && `B has more${what} in ${said(more)}`, less && `${more ? "less" : `B has less${what}`} in ${said(less)}`].filter(Boolean).join("; ")}.`;
}
