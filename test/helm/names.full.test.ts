import { describe, expect, it } from 'vitest'
import { MINIMAL, render } from '../support/chart.ts'
import { at, listAt, textAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const LONG = 'a-release-with-a-name-that-is-longer-than-'

describe.skipIf(!has(HELM))('the names of objects', () => {
  const nameWith = (fullnameOverride: string) =>
    textAt(render({ ...MINIMAL, fullnameOverride }).get('Deployment'), 'metadata.name')

  it('differ for two long names that begin alike, and leave room for what follows', () => {
    const [one, two] = [nameWith(`${LONG}one`), nameWith(`${LONG}two`)]
    expect(one).toMatch(/^a-release-with-a-name-that-is-l-[0-9a-f]{8}-gateway$/)
    expect(two).not.toBe(one)
    const { objects } = render({ ...MINIMAL, fullnameOverride: `${LONG}one`, console: { enabled: true } })
    expect(objects.filter(object => textAt(object, 'metadata.name').length > 63)).toEqual([])
  })

  it('are whole up to 40 characters', () => {
    expect(nameWith('x'.repeat(40))).toBe(`${'x'.repeat(40)}-gateway`)
  })
})

describe.skipIf(!has(HELM))('the Service', () => {
  it('has the configured port on each node, labels and further fields', () => {
    const service = {
      type: 'NodePort',
      nodePort: 30_080,
      labels: { team: 'edge' },
      spec: { externalTrafficPolicy: 'Local' },
    }
    const object = render({ ...MINIMAL, gateway: { service } }).get('Service', '-gateway')
    expect(listAt(object, 'spec.ports')).toMatchObject([{ port: 80, nodePort: 30_080 }])
    expect(at(object, 'metadata.labels')).toMatchObject({ team: 'edge' })
    expect(at(object, 'spec')).toMatchObject({ type: 'NodePort', externalTrafficPolicy: 'Local' })
  })
})
