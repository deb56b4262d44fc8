import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { V8_FLAGS } from '../support/start-arguments.ts'

const CHECKOUT = new URL('../../', import.meta.url)

interface Instruction {
  readonly name: string
  readonly words: string
}

function textOf(file: string): string {
  return readFileSync(new URL(file, CHECKOUT), 'utf8')
}

/** Stages of the Dockerfile with their instructions; the part before the first stage counts as one. */
const STAGES: readonly (readonly Instruction[])[] = stagesOf(textOf('Dockerfile'))

function stagesOf(text: string): Instruction[][] {
  const lines = text.replace(/\\\n/g, ' ').split('\n')
  const stages: Instruction[][] = [[]]
  for (const line of lines.filter(line => line.trim() !== '' && !line.startsWith('#'))) {
    const [name = '', ...words] = line.trim().split(/\s+/)
    if (name === 'FROM') stages.push([])
    stages.at(-1)?.push({ name, words: words.join(' ') })
  }
  return stages
}

const [args = []] = STAGES
const [build = [], image = [], started = [], last = []] = ['build', 'image', 'started', ''].map(stageNamed)

/** Its instructions, the first of which is `FROM`. The stage without a name is the last. */
function stageNamed(name: string): readonly Instruction[] {
  const ends = (words: string) => (name === '' ? !words.includes(' AS ') : words.endsWith(` AS ${name}`))
  return STAGES.find(([from]) => from?.name === 'FROM' && ends(from.words)) ?? []
}

function of(stage: readonly Instruction[], name: string): string[] {
  return stage.filter(instruction => instruction.name === name).map(({ words }) => words)
}

describe('the image', () => {
  it('stands on bases that are named by digest, and takes the Node of the checkout from the first', () => {
    const { devDependencies } = JSON.parse(textOf('package.json')) as {
      devDependencies: Record<string, string>
    }
    const [buildImage = '', runtimeImage = ''] = of(args, 'ARG')
    expect(buildImage).toMatch(/^BUILD_IMAGE=node:[\d.]+-bookworm-slim@sha256:[0-9a-f]{64}$/)
    expect(buildImage).toContain(`node:${devDependencies['node']}-`)
    expect(runtimeImage).toMatch(/^RUNTIME_IMAGE=\S+\/distroless\/cc-debian12:nonroot@sha256:[0-9a-f]{64}$/)
    const bases = STAGES.slice(1).map(([from]) => from?.words.replace(/^--platform=\S+ | AS .*$/g, ''))
    expect(bases).toEqual([
      ...[`\${BUILD_IMAGE}`, `\${RUNTIME_IMAGE}`, `\${BUILD_IMAGE}`],
      ...['runtime', 'image', 'image'],
    ])
    expect(of(image, 'COPY').join('\n')).toContain('--from=node /usr/local/bin/node /nodejs/bin/node')
  })

  it('is not made where the program does not start on its architecture, and has no trace of that start', () => {
    expect(of(started, 'RUN')).toEqual(['["/nodejs/bin/node", "/app/dist/main.js", "--version"]'])
    expect(of(image, 'RUN')).toEqual([])
    expect(last.slice(1)).toEqual([{ name: 'COPY', words: expect.stringMatching(/^--from=started /) }])
  })

  it('runs as the user that the chart sets, never as root', () => {
    expect(of(image, 'USER')).toEqual(['65532:65532'])
  })

  it('starts the program directly, so that it receives signals, and takes the plane as its argument', () => {
    expect(of(image, 'ENTRYPOINT')).toEqual([
      `[${['/nodejs/bin/node', ...V8_FLAGS, '/app/dist/main.js'].map(word => `"${word}"`).join(', ')}]`,
    ])
    expect(of(image, 'CMD')).toEqual(['["--help"]'])
    expect(of(image, 'HEALTHCHECK')).toEqual(['NONE'])
  })

  it('contains the production packages of the lock file, and a list of them', () => {
    const runs = of(build, 'RUN').join('\n')
    expect(runs).toMatch(
      /npm ci --ignore-scripts[\s\S]*"npm", "run", "build"[\s\S]*npm prune --omit=dev .*npm pkg delete devDependencies .*npm sbom/,
    )
    expect(of(image, 'COPY').join('\n')).toContain('/build/sbom.cdx.json')
  })

  it('has descriptive labels', () => {
    const labels = of(image, 'LABEL').join(' ')
    for (const name of ['title', 'description', 'licenses', 'version', 'revision']) {
      expect(labels).toMatch(new RegExp(`org\\.opencontainers\\.image\\.${name}="[^"]+"`))
    }
    const { version } = JSON.parse(textOf('package.json')) as { version: string }
    expect(of(image, 'ARG')).toContain(`VERSION=${version}`)
  })

  it('contains no secret in arguments or variables', () => {
    const names = [...of(build, 'ARG'), ...of(image, 'ARG'), ...of(image, 'ENV'), ...of(build, 'ENV')]
    expect(names.map(word => word.split('=')[0])).toEqual([
      'REVISION',
      'VERSION',
      'REVISION',
      'NODE_ENV',
      'POSTERN_CONSOLE_HOST',
    ])
  })

  it('exposes the ports of the planes and the ops port', () => {
    expect(of(image, 'EXPOSE')).toEqual(['8080 8081 8082 9090'])
  })
})

describe('the build', () => {
  const ignored = textOf('.dockerignore').split('\n')
  const allowed = ignored.filter(line => line.startsWith('!')).map(line => line.slice(1))
  const copied = [...build, ...image]
    .filter(({ name, words }) => name === 'COPY' && !words.startsWith('--from'))
    .flatMap(({ words }) => words.split(' ').slice(0, -1))

  it('copies files that exist and that .dockerignore allows', () => {
    expect(copied.length).toBeGreaterThan(5)
    for (const file of copied) {
      expect(existsSync(new URL(file, CHECKOUT)), file).toBe(true)
      expect(allowed).toContain(file)
    }
  })

  it('sees no other files of the checkout: no tests, history, databases or environment files', () => {
    expect(ignored).toContain('*')
    expect(allowed.filter(file => !copied.includes(file))).toEqual([])
    expect(readdirSync(CHECKOUT)).toContain('test')
    expect(allowed).not.toContain('test')
  })
})
