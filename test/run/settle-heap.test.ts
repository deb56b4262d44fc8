import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { ALL_START_YOUNG, GROW_AT_ONCE } from '../../src/run/settle-heap.ts'

// An unknown flag is passed over with a warning, and the gateway would only be slower.
test.each([GROW_AT_ONCE, ALL_START_YOUNG])('V8 knows %s', flag => {
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  const name = flag.replace(/^--(?:no-)?/, '').replace(/=.*/, '')
  expect(known).toMatch(new RegExp(`^\\s+--${name} `, 'm'))
})
