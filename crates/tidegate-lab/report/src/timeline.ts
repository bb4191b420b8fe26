/** What charts over time are drawn of: values by step, the plots that show them, and what happened meanwhile. */
import type uPlot from "uplot";
import type { Exempt, Fault, Run } from "./data";
import type { Num } from "./json";

export interface Timeline {
  /** Where the first step begins on the time axis, in seconds. */
  start: number;
  step: number;
  length: number;
  /** Where the last step ends: a run may stop within it. */
  end: number;
  /** How long all of it takes, also where no step was recorded. */
  longest: number;
  /** Values by the names that lines have; those that are not known are null. */
  of: Record<string, Num[] | null>;
  plots: Plot[];
  moment: (seconds: number) => string;
  /** How the time axis differs from others. */
  axis: uPlot.Axis;
  /** Room at the right, for half of the last tick's label. */
  right: number;
  faults: Fault[];
  exempt: Exempt[];
  events: Run["events"];
}

export interface Plot {
  key: string;
  /** Whose values these are, where plots of several stand together. */
  group?: string;
  title: string;
  unit: string;
  height: number;
  show: (value: Num) => string;
  lines: Line[];
  logarithmic?: boolean;
  /** Whether it counts things of which there is no half. */
  isWhole?: boolean;
  /** Whether it needs an axis at the right, for bars. */
  barAxis?: boolean;
  band?: Band | null;
  /** A sentence below it. */
  note?: string;
}

/** What is shaded behind the lines, between two columns. */
export interface Band {
  low: string;
  high: string;
  /** The custom property that holds its colour. */
  fill: string;
  /** The line beside whose value the band's edges are told. */
  of?: string;
}

/** Lines differ in dash as well as in colour. */
export interface Line {
  name: string;
  label: string;
  /** The custom property that holds its colour; the style sheet has a class of that name for legends. */
  color: string;
  dash: number[];
  width: number;
  /** Bars with an axis of their own at the right. */
  bars?: boolean;
  fill?: string;
}

export const line = (name: string, label: string, dash: number[] = [], more: Partial<Line> = {}): Line => ({ name, label, color: `--${name}`, dash, width: 1.75, ...more });

export const named = (plot: Plot): string => (plot.group === undefined ? plot.title : `${plot.group}: ${plot.title.toLowerCase()}`);
