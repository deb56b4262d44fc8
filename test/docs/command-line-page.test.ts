import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { EXIT } from '../../src/run/host.ts'
import { runPosternHere } from '../support/postern-here.ts'

const PAGE = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')

test('docs/cli.md explains every exit code, and no other', () => {
  const section = PAGE.split('\n## Exit codes\n')[1]?.split('\n## ')[0] ?? ''
  const documented = [...section.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
  expect(documented).toEqual(Object.values(EXIT))
})

/** Commands that may follow these words, as completion offers them. */
async function commandsAfter(...words: string[]): Promise<string[]> {
  const { stdout } = await runPosternHere(['__complete', ...words, ''])
  const names = stdout.split('\n').map(line => line.split('\t')[0] ?? '')
  return names.filter(name => /^[a-z]/.test(name))
}

/** Cells of the table of commands that name a group, such as `keys issue`, `list`. */
const rowsOf = (group: string) =>
  [...PAGE.matchAll(/^\| (`.*?) \|/gm)]
    .map(([, cell = '']) => cell)
    .filter(cell => cell.includes(`\`${group}`))

test('docs/cli.md names every command', async () => {
  const groups = await commandsAfter()
  expect(groups).toContain('keys')
  for (const group of groups) {
    const named = rowsOf(group).join(' ')
    const commands = await commandsAfter(group)
    const isNamed = (command: string) => named.split(/[^a-z-]+/).includes(command)
    expect([group, named !== '', commands.filter(command => !isNamed(command))]).toEqual([group, true, []])
  }
})
