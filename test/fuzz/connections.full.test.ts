import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { breachesBeside, describeBeside } from './beside.ts'
import { ConnectionFuzzer } from './fuzz-connections.ts'
import { keptConnections } from './kept-cases.ts'

/** `npm run fuzz -- --kind connections --seconds 600` for a long one; a finding names its seed. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 200)
const SEED = Number(process.env['FUZZ_SEED'] ?? 1)
let fuzzer: ConnectionFuzzer

beforeAll(async () => {
  fuzzer = await ConnectionFuzzer.start()
})
afterAll(() => fuzzer.stop())

describe('connections that once did harm', () => {
  test.each(keptConnections)('%s', { timeout: 60_000 }, async (name, { plan }) => {
    await fuzzer.idle()
    await fuzzer.takeBeside()
    const breaches = await fuzzer.judge(plan)
    const beside = await fuzzer.takeBeside()
    process.stdout.write(`\n${name}: ${describeBeside(beside)}\n`)
    expect([...breaches, ...breachesBeside(beside, plan.length)]).toEqual([])
    expect(fuzzer.faults()).toEqual([])
  })
})

test('on connections of all kinds, each request read is answered in order, nothing behind the end is read, memory is bounded, and others are served', {
  timeout: 3_600_000,
}, async () => {
  await fuzzer.idle()
  const report = await fuzzer.run(RUNS, SEED)
  process.stdout.write(
    `fuzz: ${report.connections} connections, answers ${JSON.stringify([...report.answers].sort())}, ` +
      `breaches ${report.breaches.length}; ${describeBeside(report.beside)}\n`,
  )
  expect(report.breaches).toEqual([])
  expect(fuzzer.faults()).toEqual([])
  // A run in which nothing passed, or nothing was refused, would show nothing.
  for (const answer of ['gateway 200', 'gateway 400', 'console 201', 'console 400']) {
    expect(report.answers.get(answer)).toBeGreaterThan(0)
  }
})
