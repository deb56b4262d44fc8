import { execFile } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { CHART, NAME, RELEASE } from '../support/chart.ts'
import { FakeCluster } from '../support/fake-cluster.ts'
import { at, type Manifest, textAt } from '../support/manifests.ts'
import { HELM, has } from '../support/tools.ts'

const SECRET = `${NAME}-generated`
const base64 = (text: string) => Buffer.from(text).toString('base64')

let cluster: FakeCluster
beforeAll(async () => {
  cluster = await FakeCluster.start()
})
afterAll(() => cluster.stop())

/** What Helm would apply, with the existing objects of the cluster. */
async function upgrade(...flags: string[]): Promise<Manifest[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const args = [
    'template',
    RELEASE,
    CHART,
    '--is-upgrade',
    '--dry-run=server',
    '--kube-version',
    '1.31.0',
    '-f',
    `${CHART}ci/console-sqlite-values.yaml`,
  ]
  const env = { ...process.env, KUBECONFIG: cluster.kubeconfig }
  execFile('helm', [...args, ...flags], { env, maxBuffer: 64 * 1024 * 1024 }, (error, stdout) =>
    error === null ? resolve(stdout) : reject(error),
  )
  return parseAllDocuments(await promise).map(document => document.toJS() as Manifest)
}

function generatedIn(objects: readonly Manifest[]): Manifest {
  return at(
    objects.find(({ kind }) => kind === 'Secret'),
    'data',
  )
}

function checksumIn(objects: readonly Manifest[]): string {
  const workload = objects.find(({ kind }) => kind === 'Deployment')
  return textAt(workload, 'spec.template.metadata.annotations', 'checksum/secret')
}

describe.skipIf(!has(HELM))('an upgrade', () => {
  it('keeps the generated secrets, so that every key stays valid', async () => {
    cluster.secrets.clear()
    const first = await upgrade()
    cluster.secrets.set(SECRET, generatedIn(first))
    const second = await upgrade('--set', 'gateway.replicas=3')
    expect(generatedIn(second)).toEqual(generatedIn(first))
    expect(checksumIn(second)).toBe(checksumIn(first))
  })

  it('keeps entries of an operator, and adds only what a new option needs', async () => {
    cluster.secrets.set(SECRET, { 'keys-signing-secrets': base64('one,two') })
    const data = generatedIn(await upgrade())
    expect(data['keys-signing-secrets']).toBe(base64('one,two'))
    expect(Object.keys(data).sort()).toEqual([
      'console-admin-token',
      'key-service-token',
      'keys-signing-secrets',
    ])
  })
})
