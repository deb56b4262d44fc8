import type { AssertionDeps, ConfiguredAssertions } from './assertions.ts'

/** @returns null if no key is configured; then `jose` is not loaded. @throws if a file holds no usable key */
export async function openAssertions(deps: AssertionDeps): Promise<ConfiguredAssertions | null> {
  const isOn = deps.config.upstream.assertion.keyFiles.length > 0
  deps.onReload(next => {
    // Verifiers either require assertions or do not: a reload must not change that.
    if (next.upstream.assertion.keyFiles.length > 0 === isOn) return () => {}
    throw new Error('upstream.assertion.keyFiles: restart the process to turn assertions on or off')
  })
  if (!isOn) return null
  const { createConfiguredAssertions } = await import('./assertions.ts')
  return createConfiguredAssertions(deps)
}
