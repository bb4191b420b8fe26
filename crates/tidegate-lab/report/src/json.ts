/**
 * Reading what JSON.parse gave without trusting its shape. A lab of another version may leave fields out or add some: unknown ones are
 * ignored, missing ones are null or empty, and what is no finite number is null.
 */

/** A number that may not be known. */
export type Num = number | null;

export type Raw = Record<string, unknown>;

export const object = (value: unknown): Raw => (value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Raw) : {});
export const objects = (value: unknown): Raw[] => (Array.isArray(value) ? value.map(object) : []);
export const num = (value: unknown): Num => (typeof value === "number" && Number.isFinite(value) ? value : null);
export const text = (value: unknown): string => (typeof value === "string" ? value : typeof value === "number" ? String(value) : "");
export const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(text).filter(Boolean) : []);
export const optional = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

export function numbers<K extends string>(keys: readonly K[], value: unknown): Record<K, Num> {
  const raw = object(value);
  return Object.fromEntries(keys.map((key) => [key, num(raw[key])])) as Record<K, Num>;
}

/** So many values; null if none of them is known. */
export function column(values: unknown, length: number): Num[] | null {
  if (!Array.isArray(values)) return null;
  const all = Array.from({ length }, (_, i) => num(values[i]));
  return all.some((one) => one !== null) ? all : null;
}

/** How many values the longest of some arrays has. What is no array has none. */
export const longest = (arrays: unknown[]): number => arrays.filter(Array.isArray).reduce((most, array) => Math.max(most, array.length), 0);

/** Makes element ids of names: letters, digits and dashes, not too long, each only once. */
export function anchors(): (name: string) => string {
  const taken = new Set<string>();
  return (name) => {
    const slug = name.slice(0, 80).replace(/[^A-Za-z0-9]+/g, "-").replace(/-$/, "");
    let anchor = slug;
    for (let i = 2; taken.has(anchor); i += 1) anchor = `${slug}-${i}`;
    taken.add(anchor);
    return anchor;
  };
}
