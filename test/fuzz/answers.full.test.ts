import { afterAll, beforeAll, expect, test } from 'vitest'
import { AnswerFuzzer } from './fuzz-answers.ts'

/** `npm run qualify` sends them for minutes. */
const RUNS = Number(process.env['FUZZ_RUNS'] ?? 600)
const SEED = Number(process.env['FUZZ_SEED'] ?? 1)
let fuzzer: AnswerFuzzer

beforeAll(async () => {
  fuzzer = await AnswerFuzzer.start()
})
afterAll(() => fuzzer.stop())

test('for any upstream bytes, a client gets a complete response, a denial of the gateway, or a visible end', {
  timeout: 3_600_000,
}, async () => {
  const report = await fuzzer.run(RUNS, SEED)
  const outcomes = JSON.stringify([...report.outcomes].sort())
  process.stdout.write(`fuzz: ${report.sent} answers, seen ${outcomes}, breaches ${report.breaches.length}\n`)
  expect(report.breaches).toEqual([])
  expect(fuzzer.faults()).toEqual([])
  // A run in which nothing was forwarded, or nothing rejected or truncated, would prove nothing.
  for (const outcome of ['200', '502', 'cut']) expect(report.outcomes.get(outcome)).toBeGreaterThan(0)
})
