/** A Kubernetes object, or a part of one, as plain data. */
export type Manifest = { readonly [name: string]: unknown }

/** Value at a dotted path; further names may themselves hold dots. */
export function valueAt(object: unknown, path: string, ...names: string[]): unknown {
  let node = object
  for (const name of [...path.split('.'), ...names]) {
    node = typeof node === 'object' && node !== null ? (node as Manifest)[name] : undefined
  }
  return node
}

export function at(object: unknown, path: string, ...names: string[]): Manifest {
  const value = valueAt(object, path, ...names)
  if (typeof value !== 'object' || value === null) throw new Error(`No map at ${path}`)
  return value as Manifest
}

export function textAt(object: unknown, path: string, ...names: string[]): string {
  const value = valueAt(object, path, ...names)
  if (typeof value !== 'string') throw new Error(`No text at ${path}: ${JSON.stringify(value)}`)
  return value
}

/** A missing list counts as empty. */
export function listAt(object: unknown, path: string, ...names: string[]): readonly Manifest[] {
  const value = valueAt(object, path, ...names) ?? []
  if (!Array.isArray(value)) throw new Error(`No list at ${path}`)
  return value as Manifest[]
}
