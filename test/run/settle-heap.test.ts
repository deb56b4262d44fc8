import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { UNDER_LOAD } from '../../src/run/settle-heap.ts'

// An unknown flag is passed over with a warning, and the gateway would only be slower.
test.each(UNDER_LOAD)('V8 knows %s', flag => {
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  const name = flag.replace(/^--(?:no-)?/, '').replace(/=.*/, '')
  expect(known).toMatch(new RegExp(`^\\s+--${name} `, 'm'))
})
