import { describe, expect, it, test } from 'vitest'

const NONE: readonly number[] = []

it('a table of tests that is empty fails its file', () => {
  const tables: readonly (() => unknown)[] = [
    () => test.each(NONE),
    () => it.for(NONE),
    () => test.skipIf(false).each(NONE),
    () => it.runIf(true).for(NONE),
    () => describe.each(NONE),
    () => describe.for(NONE),
    () => describe.skipIf(false).each(NONE),
    () => test.concurrent.each(NONE),
    () => it.concurrent.for(NONE),
    () => test.skip.each(NONE),
    () => test.fails.each(NONE),
    () => describe.concurrent.each(NONE),
    () => describe.shuffle.for(NONE),
  ]
  for (const table of tables) expect(table).toThrow('the table is empty')
})
