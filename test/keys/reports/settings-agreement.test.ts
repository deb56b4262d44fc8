import { expect, test } from 'vitest'
import { SettingsAgreement } from '../../../src/keys/reports/settings-checks.ts'

function agreement({ contradicts }: { contradicts: boolean }) {
  const settings = { contradicts }
  return { settings, agreement: new SettingsAgreement(() => settings.contradicts) }
}

test('a gateway whose settings contradict those of the key service from the start is not ready until they agree', () => {
  const { settings, agreement: checked } = agreement({ contradicts: true })
  checked.note()
  expect(checked.isMisconfigured).toBe(true)
  settings.contradicts = false
  expect(checked.isMisconfigured).toBe(false)
})

test('a gateway whose settings agreed once stays ready, also if the key service changes', () => {
  const { settings, agreement: checked } = agreement({ contradicts: false })
  checked.note()
  settings.contradicts = true
  expect(checked.isMisconfigured).toBe(false)
})

test('asking for the readiness decides nothing: only an answer of the key service does', () => {
  const { settings, agreement: checked } = agreement({ contradicts: false })
  expect(checked.isMisconfigured).toBe(false)
  settings.contradicts = true
  expect(checked.isMisconfigured).toBe(true)
})
