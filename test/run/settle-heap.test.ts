import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { UNDER_LOAD } from '../../src/run/settle-heap.ts'

// An unknown flag is passed over with a warning, and the gateway would only be slower.
test.each(UNDER_LOAD)('V8 knows %s', flag => {
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' })
  const name = flag.replace(/^--(?:no-)?/, '').replace(/=.*/, '')
  expect(known).toMatch(new RegExp(`^\\s+--${name} `, 'm'))
})

// Forgotten, it is three to five times as dear for the rest of the process's life.
test('what Node does after each turn costs no more once the heap is settled', () => {
  const program = fileURLToPath(new URL('settled-ticks.ts', import.meta.url))
  const ratio = Number(execFileSync(process.execPath, [program], { encoding: 'utf8' }))
  expect(ratio).toBeLessThan(2)
})
