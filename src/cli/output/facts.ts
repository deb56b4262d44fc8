import type { Paint } from './paint.ts'

/** A label and what it says; null leaves the line out. */
export type Fact = readonly [label: string, text: string | null]

/** One thing in full, a fact a line. */
export function factLines(facts: readonly Fact[], paint: Paint): string {
  const shown = facts.filter((fact): fact is [string, string] => fact[1] !== null)
  const width = Math.max(...shown.map(([label]) => label.length))
  return shown.map(([label, text]) => `${paint('bold', label.padEnd(width))}  ${text}\n`).join('')
}
