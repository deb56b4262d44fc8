import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { Manifest } from './manifests.ts'

/** The part of the Kubernetes API that Helm uses when it renders: discovery, and Secrets by name. */
export class FakeCluster {
  /** Data of each Secret by name. */
  readonly secrets = new Map<string, Manifest>()
  readonly #server: Server
  readonly #directory = mkdtempSync(join(tmpdir(), 'postern-cluster-'))

  private constructor() {
    this.#server = createServer((request, response) => {
      const answer = this.#answerTo(new URL(request.url ?? '/', 'http://cluster').pathname)
      response.writeHead(answer === null ? 404 : 200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify(answer ?? { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 }),
      )
    })
  }

  static async start(): Promise<FakeCluster> {
    const cluster = new FakeCluster()
    cluster.#server.listen(0, '127.0.0.1')
    await once(cluster.#server, 'listening')
    const address = cluster.#server.address()
    if (address === null || typeof address === 'string') throw new Error('The server has no TCP port')
    const named = { name: 'fake' }
    const server = `http://127.0.0.1:${address.port}`
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'fake',
      clusters: [{ ...named, cluster: { server } }],
      users: [{ ...named, user: {} }],
      contexts: [{ ...named, context: { cluster: 'fake', user: 'fake' } }],
    }
    writeFileSync(cluster.kubeconfig, stringify(config))
    return cluster
  }

  get kubeconfig(): string {
    return join(this.#directory, 'kubeconfig')
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #answerTo(path: string): unknown {
    if (path === '/version') return { major: '1', minor: '31', gitVersion: 'v1.31.0' }
    if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] }
    if (path === '/apis') return { kind: 'APIGroupList', apiVersion: 'v1', groups: [] }
    if (path === '/api/v1') {
      const secrets = {
        name: 'secrets',
        singularName: 'secret',
        namespaced: true,
        kind: 'Secret',
        verbs: ['get'],
      }
      return { kind: 'APIResourceList', groupVersion: 'v1', resources: [secrets] }
    }
    const name = /^\/api\/v1\/namespaces\/default\/secrets\/([^/]+)$/.exec(path)?.[1]
    const data = this.secrets.get(name ?? '')
    return data === undefined ? null : { apiVersion: 'v1', kind: 'Secret', metadata: { name }, data }
  }
}
