import { describe, test } from 'vitest'

type OfTests = (this: unknown, ...values: readonly unknown[]) => unknown

const GUARDED = Symbol.for('tables are not empty')

interface Chain extends Record<'each' | 'for', OfTests> {
  [GUARDED]?: true
}

/** Vitest gives the functions of `fn` to each chain that it makes of this one, such as `test.concurrent` or `test.skipIf(…)`. */
interface Root extends Chain {
  readonly fn: Chain
}

/**
 * `test.each` over a list that is computed, from documents or files, makes no test if the list is empty, and Vitest passes. Here
 * the file fails. Vitest runs this before each file, also where several share a process.
 */
function guard(chain: Chain): void {
  if (chain[GUARDED] === true) return
  chain[GUARDED] = true
  for (const name of ['each', 'for'] as const) {
    const original = chain[name]
    chain[name] = function (table, ...values) {
      if (Array.isArray(table) && table.length === 0) throw new Error(`.${name}([]): the table is empty`)
      return original.call(this, table, ...values)
    }
  }
}

// Vitest's own types say what a test may pass to them, which all of this passes on.
for (const root of [test, describe] as unknown as Root[]) {
  guard(root)
  guard(root.fn)
}
