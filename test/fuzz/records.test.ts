import { afterAll, beforeAll, expect, test } from 'vitest'
import { RecordFuzzer } from './fuzz-records.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 1500)
const SEED = Number(process.env['FUZZ_SEED'] ?? 1)
let fuzzer: RecordFuzzer

beforeAll(async () => {
  fuzzer = await RecordFuzzer.start()
})
afterAll(() => fuzzer.stop())

test('no content of Redis and no response of the key service wrongly grants or denies a key', {
  timeout: 3_600_000,
}, async () => {
  const report = await fuzzer.run(RUNS, SEED)
  const verdicts = JSON.stringify([...report.verdicts].sort())
  process.stdout.write(
    `fuzz: ${report.sent} records, ${verdicts}, ${report.inBatches} lookups in batches, breaches ${report.breaches.length}\n`,
  )
  expect(report.breaches).toEqual([])
  expect(fuzzer.faults()).toEqual([])
  expect(report.inBatches).toBeGreaterThan(0)
  // A run without one of these results would prove nothing.
  for (const verdict of [
    'granted',
    'key_invalid',
    'key_revoked',
    'key_expired',
    'key_suspended',
    'key_store_unavailable',
  ])
    expect(report.verdicts.get(verdict), verdict).toBeGreaterThan(0)
})
