/* What a selection says in a sentence: the function that its time is in, as the headline does for the whole recording; of two ranges, what
   differs between them beyond chance. */

import { chance } from "./trees.js";
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

/* The sentence of two ranges. weights, totals, samples, cpus, lengths (ns): of A and of B. */
export function verdictOfBoth({ weights, totals, samples, name, of, cpus, lengths }) {
  const [a, b] = (cpus || []).map(one => one.toFixed(2)), [first, second] = lengths.map(duration);
  const used = of === WAITS ? `In A ${a} threads waited at a time, in B ${b}` : `A used ${a} CPUs for ${first}, B ${b} for ${second}`, sizes = cpus ? `${used}. ` : "";
  const least = Math.min(...samples), few = least ? `only ${counted(least, "sample")}` : "no samples";
  if (least < FEWEST) return `${sizes}${samples[0] < samples[1] ? "A" : "B"} has ${few}: too few to compare.`;
  const shares = f => weights.map((column, k) => column[f] / (totals[k] || 1)), changes = [];
  for (let f = 0; f < weights[0].length; f++) {
    const [a, b] = shares(f);
    if ((a || b) && Math.abs(b - a) > chance([a, b], samples) && Math.abs(b - a) > 0.005) changes.push([b - a, f, a, b]);
  }
  if (!changes.length) return `${sizes}No function differs between A and B beyond chance.`;
  const said = ([, f, a, b]) => `${name(f)}: ${round(a)} of the ${of} in A, ${round(b)} in B`;
  const more = changes.filter(([change]) => change > 0).sort((x, y) => y[0] - x[0])[0], less = changes.filter(([change]) => change < 0).sort((x, y) => x[0] - y[0])[0];
  return `${sizes}${[more && `B has more in ${said(more)}`, less && `${more ? "less" : "B has less"} in ${said(less)}`].filter(Boolean).join("; ")}.`;
}

/* The same of CPU time and of waits, of which pictures and tables compare the former. */
export function verdictOfTimes(onCpu, offCpu) {
  return `${verdictOfBoth(onCpu)} Waits, which colours and tables leave out here: ${verdictOfBoth({ ...offCpu, of: WAITS })}`;
}
