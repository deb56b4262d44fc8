import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const FILL = fileURLToPath(new URL('fill-memory.ts', import.meta.url))
const RECORDS = 100_000

test('a record in memory takes at most 500 bytes in total', () => {
  const printed = execFileSync(process.execPath, ['--expose-gc', FILL, String(RECORDS)], { encoding: 'utf8' })
  expect(Number(printed)).toBeGreaterThan(100)
  expect(Number(printed)).toBeLessThanOrEqual(500)
})
