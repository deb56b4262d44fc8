import { describe, expect, it, test } from 'vitest'

const NONE: readonly number[] = []

it('a table of tests that is empty fails its file', () => {
  for (const kind of [test, it, describe]) {
    expect(() => kind.each(NONE)).toThrow('the table is empty')
    expect(() => kind.for(NONE)).toThrow('the table is empty')
    expect(() => kind.skipIf(false).each(NONE)).toThrow('the table is empty')
    expect(() => kind.runIf(true).each(NONE)).toThrow('the table is empty')
  }
})
