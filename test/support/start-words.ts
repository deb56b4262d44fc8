import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

/** What `npm start` gives to node, as package.json says it: what is measured and tested is what people run. */
export function startWords(checkout: string): string[] {
  const manifest: { scripts: { start: string } } = JSON.parse(
    readFileSync(join(checkout, 'package.json'), 'utf8'),
  )
  const [exec, node, ...words] = manifest.scripts.start.split(' ')
  if (exec !== 'exec' || node !== 'node')
    throw new Error('The script start in package.json is not: exec node …')
  return words
}

/** The options of V8 among them. The image and the benchmark's other servers start with the same. */
export const V8_FLAGS: readonly string[] = startWords(CHECKOUT).filter(
  word => word.startsWith('--') && word !== '--require',
)

export const SEMI_SPACE_MIB = Number(
  V8_FLAGS.find(flag => flag.startsWith('--max-semi-space-size='))?.split('=')[1],
)
