/* Numbers -> text. */

export const percent = share => (100 * share).toFixed(2) + "%";

export const signed = share => (share > 0 ? "+" : "") + percent(share);

export const whole = value => Math.round(value).toLocaleString("en-US");

/* ns -> a time with the digits that matter; what would be rounded up to 1000 is 1 of the next unit */
export function duration(ns) {
  const size = Math.abs(ns);
  if (size >= 999.9995e6) return (ns / 1e9).toFixed(3) + " s";
  if (size >= 999.95e3) return (ns / 1e6).toFixed(3) + " ms";
  return (ns / 1e3).toFixed(1) + " \u00b5s";
}

/* what an event's weights are: ns of time, or a sum of periods */
export const amount = (weight, inSeconds) => inSeconds ? duration(weight) : whole(weight) + " periods";

/* a regular expression that finds a text itself */
export const literally = text => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
