/**
 * Targets in absolute form, and forms that look like it, whose path in one reading is the given one. Servers differ in
 * where the authority ends, and so in the path that they read.
 */
export function absoluteTargets(path: string, otherPath: string): readonly string[] {
  const escaped = otherPath.replaceAll('/', '\\')
  return [
    `http://h${path}`,
    `HTTP://h${path}`,
    `https://h:443${path}`,
    `http://h:80${path}`,
    `x://h${path}`,
    `ftp://h${path}`,
    `http://${path}`,
    `http:///h${path}`,
    `http://x@h${path}`,
    `http://x:y@h${path}`,
    `http://[::1]:80${path}`,
    `http://h?@h${path}`,
    `http://h#@h${path}`,
    `http://h%2f${path}`,
    `http://h;${path}`,
    `http://h${escaped}?@h${path}`,
    `http://h${escaped}#@h${path}`,
    `http://h${escaped}@h${path}`,
    `http://h\\@h${path}`,
    `http:\\\\h${path}`,
    `http:/${path}`,
    `http:${path}`,
    `//h${path}`,
    `///h${path}`,
    `/\\h${path}`,
    `h${path}`,
    `h:80${path}`,
    `@h${path}`,
    `http://h${otherPath}/../ws_1`,
    `http://h${otherPath}?/..${path}`,
    `http://h${path}?${otherPath}`,
    `http://h${path}#${otherPath}`,
    `http://h${path}\\..\\ws_2`,
    `http://h${path}/..\\ws_2`,
    `http://h`,
    `http://h?${path}`,
  ]
}
