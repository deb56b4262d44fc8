import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { temporaryDirectory } from './temporary-directory.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PARTS = ['src', 'test', 'config', 'package.json', 'tsconfig.json']

/** One place of a source file that a test changes: what stands there, and what it becomes. */
export type SourceChange = readonly [found: string | RegExp, becomes: string]

/** A copy of the sources, which a test changes as a maintainer would, compiles and runs. */
export class CopiedSources {
  readonly directory = mkdtempSync(join(tmpdir(), 'postern-sources-'))

  constructor() {
    for (const part of PARTS) cpSync(join(ROOT, part), join(this.directory, part), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(this.directory, 'node_modules'))
    writeFileSync(
      join(this.directory, 'tsconfig.src.json'),
      '{ "extends": "./tsconfig.json", "include": ["src"] }',
    )
  }

  /** @param file below `src` */
  change(file: string, changes: readonly SourceChange[]): void {
    const path = join(this.directory, 'src', file)
    let text = readFileSync(path, 'utf8')
    for (const [found, becomes] of changes) {
      const changed = text.replace(found, () => becomes)
      if (changed === text) throw new Error(`${file} has no place like ${found}`)
      text = changed
    }
    writeFileSync(path, text)
  }

  /** @returns the files below `src` in which the compiler finds an error, sorted */
  filesWithErrors(): string[] {
    const tsc = join(ROOT, 'node_modules/.bin/tsc')
    // On a machine that runs other tests meanwhile, several threads take twice the processor time, and no less time.
    const words = ['-p', 'tsconfig.src.json', '--pretty', 'false', '--singleThreaded']
    const { stdout, status } = spawnSync(tsc, words, { cwd: this.directory, encoding: 'utf8' })
    const named = [...stdout.matchAll(/^src\/([^(]+)\(.*error TS/gm)].map(([, file = '']) => file)
    if (status !== 0 && named.length === 0) throw new Error(`The compiler failed: ${stdout}`)
    return [...new Set(named)].toSorted()
  }

  /** A module of `test/support` in the copy: the same as the one of this checkout, over the changed sources. */
  support(file: string): Promise<unknown> {
    return import(pathToFileURL(join(this.directory, 'test/support', file)).href)
  }

  /** A console of the copy with its file, people who sign in to its pages, and the command line of the copy. */
  async startConsole() {
    // The same modules, of the copy.
    const { startSignIn } = (await this.support('signed-in.ts')) as typeof import('./signed-in.ts')
    const { runPosternHere } = (await this.support('postern-here.ts')) as typeof import('./postern-here.ts')
    const { ADMIN_TOKEN } = (await this.support('console.ts')) as typeof import('./console.ts')
    const file = join(temporaryDirectory(), 'keys.db')
    const world = await startSignIn({ databaseUrl: `sqlite:${file}` })
    const url = await world.app.listen({ host: '127.0.0.1', port: 0 })
    const env = { POSTERN_CONSOLE_URL: url, POSTERN_ADMIN_TOKEN: ADMIN_TOKEN }
    const postern = (...args: string[]) => runPosternHere(args, env)
    const issue = (more: object) =>
      world.send('POST', '/admin/v1/workspaces/ws_1/keys', {
        ...{ name: 'build server', scopes: ['files:read'] },
        ...more,
      })
    const edit = (id: string, version: number, body: object) =>
      world.send('PATCH', `/admin/v1/keys/${id}`, body, { headers: { 'if-match': `"${version}"` } })
    return { ...world, file, postern, issue, edit }
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}
