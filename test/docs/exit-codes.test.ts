import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { EXIT } from '../../src/run/host.ts'

test('docs/cli.md explains every exit code, and no other', () => {
  const page = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8')
  const section = page.split('\n## Exit codes\n')[1]?.split('\n## ')[0] ?? ''
  const documented = [...section.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
  expect(documented).toEqual(Object.values(EXIT))
})
