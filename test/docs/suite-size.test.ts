import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const filesOf = (pattern: string) => globSync(pattern, { cwd: ROOT })

test('CONTRIBUTING.md says how large the suite is, within a tenth', () => {
  const page = read('CONTRIBUTING.md')
  const text = /The suite has ([\d,]+) test files and ([\d,]+) lines .* runs ([\d,]+) of the files/.exec(page)
  const said = text?.slice(1).map(figure => Number(figure.replaceAll(',', ''))) ?? []
  const lines = filesOf('test/**/*.ts').reduce((sum, file) => sum + read(file).split('\n').length - 1, 0)
  const fast = filesOf('test/**/!(*.full|*.qualify).test.ts').length
  const counted = [filesOf('test/**/*.test.ts').length, lines, fast]
  expect(said).toHaveLength(counted.length)
  for (const [index, count] of counted.entries()) {
    expect(Math.abs((said[index] ?? 0) - count), `${said[index]} is said of ${count}`).toBeLessThan(
      count / 10,
    )
  }
})
