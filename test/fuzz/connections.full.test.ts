import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { breachesBeside, describeBeside } from './beside.ts'
import { ConnectionFuzzer } from './fuzz-connections.ts'
import { keptConnections } from './kept-cases.ts'

/** For a long run: `npm run fuzz -- --kind connections --seconds 600`. A finding names its seed. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 80)
const SEED = Number(process.env['FUZZ_SEED'] ?? 1)
let fuzzer: ConnectionFuzzer

beforeAll(async () => {
  fuzzer = await ConnectionFuzzer.start()
})
afterAll(() => fuzzer.stop())

describe('connections that caused defects in the past', () => {
  test.each(keptConnections)('%s', async (name, { plan }) => {
    await fuzzer.idle()
    await fuzzer.takeBeside()
    const breaches = await fuzzer.judge(plan)
    const beside = await fuzzer.takeBeside()
    process.stdout.write(`\n${name}: ${describeBeside(beside)}\n`)
    expect([...breaches, ...breachesBeside(beside, plan.length)]).toEqual([])
    expect(fuzzer.faults()).toEqual([])
  })
})

test('on connections of all kinds, requests are answered in order, nothing after the end is read, memory is bounded, and other clients are served', {
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
  // A run in which nothing was forwarded or nothing rejected would prove nothing.
  for (const answer of ['gateway 200', 'gateway 400', 'console 201', 'console 400']) {
    expect(report.answers.get(answer)).toBeGreaterThan(0)
  }
})
