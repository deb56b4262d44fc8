/** An object of Kubernetes, or a part of one, as plain data. */
export type Manifest = { readonly [name: string]: unknown }

/** What stands at a path of names; a name may hold dots where it is given by itself. */
export function valueAt(object: unknown, path: string, ...names: string[]): unknown {
  let node = object
  for (const name of [...path.split('.'), ...names]) {
    node = typeof node === 'object' && node !== null ? (node as Manifest)[name] : undefined
  }
  return node
}

export function at(object: unknown, path: string, ...names: string[]): Manifest {
  const value = valueAt(object, path, ...names)
  if (typeof value !== 'object' || value === null) throw new Error(`There is no map at ${path}`)
  return value as Manifest
}

export function textAt(object: unknown, path: string, ...names: string[]): string {
  const value = valueAt(object, path, ...names)
  if (typeof value !== 'string') throw new Error(`There is no text at ${path}: ${JSON.stringify(value)}`)
  return value
}

/** An absent list is an empty one. */
export function listAt(object: unknown, path: string, ...names: string[]): readonly Manifest[] {
  const value = valueAt(object, path, ...names) ?? []
  if (!Array.isArray(value)) throw new Error(`There is no list at ${path}`)
  return value as Manifest[]
}
