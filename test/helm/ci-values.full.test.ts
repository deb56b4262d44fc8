import { randomBytes } from 'node:crypto'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Plane } from '../../src/config/rules.ts'
import { CHART, CI_FILES, loadRendered, readCi, render, runHelm, settingsText } from '../support/chart.ts'
import { installSchemas, schemaMistakes } from '../support/kubernetes-schemas.ts'
import { at, textAt } from '../support/manifests.ts'
import { HELM, has, PYTHON } from '../support/tools.ts'

const SIGNING_SECRET = randomBytes(32).toString('base64')

/** Contents of the Secrets that the examples reference. */
function contentsOf(file: string): string {
  if (file === 'keys.signingSecrets' || file === 'signing-secrets') return SIGNING_SECRET
  if (file.endsWith('redis.url') || file === 'redis-url') return 'rediss://:pass@redis:6380'
  if (file === 'database.url' || file === 'database-url')
    return 'postgres://postern:pass@postgres:5432/postern'
  return 'a-secret-of-more-than-16-characters\n'
}

const rendered = (file: string) => render({}, { files: [file], args: ['--namespace', 'edge'] })

function planesOf(file: string): Plane[] {
  const names = rendered(file)
    .all('Service')
    .map(object => textAt(object, 'metadata.name'))
  return (['gateway', 'console'] as const).filter(plane => names.some(name => name.endsWith(`-${plane}`)))
}

describe.skipIf(!has(HELM))('each example of values', () => {
  it('begins with a description', () => {
    expect(CI_FILES).toHaveLength(14)
    for (const file of CI_FILES) expect(readCi(file)).toMatch(/^# .+\.$/m)
  })

  it.each(CI_FILES)('%s passes the linter without warnings', file => {
    const { ok, stdout, stderr } = runHelm(['lint', '--strict', CHART, '-f', `${CHART}ci/${file}`])
    expect(stdout + stderr).not.toMatch(/\[(?:WARNING|ERROR)\]/)
    expect(ok).toBe(true)
  })

  it.each(CI_FILES)('%s renders objects with unique names, all in the namespace of the release', file => {
    const { objects, stderr } = rendered(file)
    const names = objects.map(object => `${textAt(object, 'kind')} ${textAt(object, 'metadata.name')}`)
    expect(names.length, stderr).toBeGreaterThan(5)
    expect(new Set(names).size).toBe(names.length)
    for (const object of objects) {
      // extraObjects are rendered as written.
      const { namespace, labels } = at(object, 'metadata')
      if (labels !== undefined) expect(namespace).toBe('edge')
    }
  })

  it.each(CI_FILES)('%s renders settings that Postern accepts', file => {
    const planes = planesOf(file)
    expect(planes).not.toEqual([])
    for (const plane of planes) {
      const loaded = loadRendered(rendered(file), plane, contentsOf)
      expect(loaded.ok ? [] : loaded.problems).toEqual([])
    }
  })

  it.each(CI_FILES)('%s gives no plane settings of the other', file => {
    for (const plane of planesOf(file)) {
      const text = settingsText(rendered(file), plane)
      expect(text).not.toMatch(plane === 'gateway' ? /^(?:console|database):/m : /^(?:gateway|upstream):/m)
    }
  })
})

describe.skipIf(!has(HELM) || !has(PYTHON))(
  'Kubernetes takes what is rendered, and knows every field of it',
  () => {
    beforeAll(installSchemas, 300_000)

    it.each(['1.30', '1.37'])('each example on Kubernetes %s', version => {
      const objects = Object.fromEntries(CI_FILES.map(file => [file, rendered(file).objects]))
      for (const [file, { length }] of Object.entries(objects)) expect(length, file).toBeGreaterThan(5)
      expect(schemaMistakes(objects, version)).toEqual([])
    })

    it('and rejects an unknown field', () => {
      const object = { apiVersion: 'v1', kind: 'Service', metadata: { name: 's' }, spec: { prots: [] } }
      expect(schemaMistakes({ service: [object] }, '1.30').join()).toContain('prots')
    })
  },
)
