import { afterAll, beforeAll, expect, test } from 'vitest'
import { AnswerFuzzer } from './fuzz-answers.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 2000)
const SEED = Number(process.env['FUZZ_SEED'] ?? 1)
let fuzzer: AnswerFuzzer

beforeAll(async () => {
  fuzzer = await AnswerFuzzer.start()
})
afterAll(() => fuzzer.stop())

test('whatever bytes an upstream answers, a client gets its whole answer, a refusal of ours, or a visible end', {
  timeout: 3_600_000,
}, async () => {
  const report = await fuzzer.run(RUNS, SEED)
  const outcomes = JSON.stringify([...report.outcomes].sort())
  process.stdout.write(`fuzz: ${report.sent} answers, seen ${outcomes}, breaches ${report.breaches.length}\n`)
  expect(report.breaches).toEqual([])
  expect(fuzzer.faults()).toEqual([])
  // A run in which nothing passed, or nothing was refused or cut, would show nothing.
  for (const outcome of ['200', '502', 'cut']) expect(report.outcomes.get(outcome)).toBeGreaterThan(0)
})
