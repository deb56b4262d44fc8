import { expect, test } from 'vitest'
import { readLines } from '../../src/cli/admin/read-lines.ts'

async function* inParts(...parts: string[]) {
  yield* parts
}
async function linesOf(...parts: string[]): Promise<string[]> {
  const lines: string[] = []
  for await (const line of readLines(inParts(...parts), 10)) lines.push(line)
  return lines
}

test('lines are read wherever their parts end', async () => {
  expect(await linesOf('a\nb', 'c\n', '\nd')).toEqual(['a', 'bc', '', 'd'])
  expect(await linesOf('a\n')).toEqual(['a'])
  expect(await linesOf()).toEqual([])
})

test('of an endless line, only a bounded part is read', async () => {
  let read = 0
  async function* endless() {
    yield 'a\n'
    for (;;) {
      read++
      yield 'xxxx'
    }
  }
  const lines: string[] = []
  for await (const line of readLines(endless(), 10)) lines.push(line)
  expect(lines).toEqual(['a', 'xxxxxxxxxxxx'])
  expect(read).toBe(3)
})
