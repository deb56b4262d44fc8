import { expect, test } from 'vitest'
import { readLines } from '../../src/cli/commands/keys/read-entries.ts'

async function* inParts(...parts: string[]) {
  for (const part of parts) yield Buffer.from(part)
}
async function linesOf(...parts: string[]): Promise<string[]> {
  const lines: string[] = []
  for await (const line of readLines(inParts(...parts), 10)) lines.push(String(line))
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
    yield Buffer.from('a\n')
    for (;;) {
      read++
      yield Buffer.from('xxxx')
    }
  }
  const lines: string[] = []
  for await (const line of readLines(endless(), 10)) lines.push(String(line))
  expect(lines).toEqual(['a', 'xxxxxxxxxxxx'])
  expect(read).toBe(3)
})
