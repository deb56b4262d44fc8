import { execFile } from 'node:child_process'
import { copyFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ADMIN_CALLS } from '../../src/console/api-reference/admin-api.ts'
import { adminDocument } from '../support/admin-contract.ts'
import { ADMIN_TOKEN, startConsole } from '../support/console.ts'
import { npmTools } from '../support/npm-tools.ts'
import { PostgresServer } from '../support/postgres-server.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, POSTGRES } from '../support/tools.ts'

/** The generator needs the API of TypeScript 5, and this project has 7, whose compiler then checks what it wrote. */
const TOOLS = ['openapi-typescript@7.13.0', 'openapi-fetch@0.17.0', 'typescript@5.9.3']
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const run = promisify(execFile)

const COMPILER_OPTIONS = {
  ...{ target: 'es2024', lib: ['es2024', 'dom', 'dom.iterable'], module: 'nodenext', strict: true },
  ...{ noEmit: true, skipLibCheck: true, allowImportingTsExtensions: true, verbatimModuleSyntax: true },
  ...{ erasableSyntaxOnly: true, types: ['node'], typeRoots: [join(ROOT, 'node_modules/@types')] },
}

/** A project of its own: the client, the types that the generator makes of the document, and nothing of Postern. */
async function createProject(modules: string): Promise<string> {
  const directory = temporaryDirectory()
  const inside = (name: string) => join(directory, name)
  symlinkSync(modules, inside('node_modules'))
  writeFileSync(inside('package.json'), '{"type":"module"}')
  writeFileSync(inside('tsconfig.json'), JSON.stringify({ compilerOptions: COMPILER_OPTIONS }))
  writeFileSync(inside('admin-api.json'), JSON.stringify(adminDocument('https://keys.example.com')))
  copyFileSync(join(ROOT, 'test/console/admin-client/round-trip.ts'), inside('round-trip.ts'))
  const generator = join(modules, 'openapi-typescript/bin/cli.js')
  await run(process.execPath, [generator, inside('admin-api.json'), '--output', inside('admin-api.ts')])
  return directory
}

describe('a TypeScript client generated from the OpenAPI document', () => {
  let postgres: PostgresServer | null = null
  beforeAll(async () => {
    npmTools(TOOLS)
    if (has(POSTGRES)) postgres = await PostgresServer.started()
  }, 300_000)
  afterAll(() => postgres?.stop())

  test('compiles', async () => {
    const project = await createProject(npmTools(TOOLS))
    const compiled = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', project]).catch(
      (failed: { stdout: string }) => failed,
    )
    expect(compiled.stdout).toBe('')
  })

  test('calls the whole admin API of a console on SQLite', () => roundTrip('sqlite::memory:'))

  test.skipIf(!has(POSTGRES))('calls the whole admin API on PostgreSQL', async () => {
    if (postgres === null) throw new Error('PostgreSQL has not started')
    await roundTrip(await postgres.database())
  })
})

async function roundTrip(databaseUrl: string): Promise<void> {
  const { app } = await startConsole({ databaseUrl, workspaceWebhooks: { enabled: true } })
  const called = new Set<string>()
  app.addHook(
    'onResponse',
    async ({ method, routeOptions }) => void called.add(`${method} ${routeOptions.url}`),
  )
  const origin = await app.listen({ host: '127.0.0.1', port: 0 })
  const project = await createProject(npmTools(TOOLS))
  await run(process.execPath, [join(project, 'round-trip.ts'), origin, ADMIN_TOKEN])
  const missing = ADMIN_CALLS.filter(({ method, url }) => !called.has(`${method} /admin/v1${url}`))
  expect(missing.map(({ id }) => id)).toEqual([])
}
