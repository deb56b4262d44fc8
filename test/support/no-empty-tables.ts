import { describe, test } from 'vitest'

type OfTests = (this: unknown, ...values: readonly unknown[]) => unknown

const GUARDED = Symbol.for('tables are not empty')

interface Chain extends Record<'each' | 'for' | 'skipIf' | 'runIf', OfTests> {
  [GUARDED]?: true
}

/**
 * `test.each` over a list that is computed, from documents or files, makes no test if the list is empty, and Vitest passes. Here
 * the file fails. Vitest runs this before each file, also where several share a process.
 */
function guard(chain: Chain): Chain {
  if (chain[GUARDED] === true) return chain
  chain[GUARDED] = true
  for (const name of ['each', 'for'] as const) {
    const original = chain[name]
    chain[name] = function (table, ...values) {
      if (Array.isArray(table) && table.length === 0) throw new Error(`.${name}([]): the table is empty`)
      return original.call(this, table, ...values)
    }
  }
  for (const name of ['skipIf', 'runIf'] as const) {
    const original = chain[name]
    chain[name] = function (condition) {
      // Vitest returns a chain of the same functions.
      return guard(original.call(this, condition) as Chain)
    }
  }
  return chain
}

// Vitest's own types say what a test may pass to them, which all of this passes on.
for (const chain of [test, describe] as unknown as Chain[]) guard(chain)
