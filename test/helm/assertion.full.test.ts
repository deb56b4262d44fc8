import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { MINIMAL, podOf, render, settingsOf, type Values } from '../support/chart.ts'
import { at, listAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const page = readFileSync(new URL('../../docs/operate/rotate-secrets.md', import.meta.url), 'utf8')
const [, block = ''] = /^### With the chart[\s\S]*?^```yaml\n([\s\S]*?)^```$/m.exec(page) ?? []
// Values of the chart: maps all of them.
const { config, gateway } = parse(block) as { config: { upstream: Values }; gateway: Values }

describe.skipIf(!has(HELM))('the values for assertion keys in docs/operate/rotate-secrets.md', () => {
  it('mount the keys of assertions into the gateway alone, where its settings name them', () => {
    const upstream = { ...MINIMAL.config.upstream, ...config.upstream }
    const console = { enabled: true }
    const rendering = render({ ...MINIMAL, config: { ...MINIMAL.config, upstream }, gateway, console })
    const { keyFiles } = at(settingsOf(rendering, 'gateway'), 'upstream.assertion')
    expect(keyFiles).toEqual(
      ['current', 'next', 'previous'].map(name => `/etc/postern/assertion/${name}.pem`),
    )
    const mount = { name: 'assertion', mountPath: '/etc/postern/assertion', readOnly: true }
    const mountsOf = (plane: 'gateway' | 'console') =>
      listAt(podOf(rendering, plane).spec, 'containers.0.volumeMounts')
    expect(mountsOf('gateway')).toContainEqual(mount)
    expect(mountsOf('console')).not.toContainEqual(mount)
    expect(listAt(podOf(rendering, 'gateway').spec, 'volumes')).toContainEqual({
      name: 'assertion',
      secret: { secretName: 'postern-assertion', defaultMode: 0o440 },
    })
  })
})
