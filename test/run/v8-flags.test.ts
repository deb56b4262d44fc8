import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { V8_FLAGS } from '../support/start-arguments.ts'

// Node fails to start with an unknown option, so a new Node version must be tested with these.
test.each(V8_FLAGS)('V8 knows %s', flag => {
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  const name = flag.replace(/^--(?:no-)?/, '').replace(/=.*/, '')
  expect(known).toMatch(new RegExp(`^\\s+--${name} `, 'm'))
})
