/** Rows of the table in a section of a page, cell by cell, without its head. */
export function tableRows(section: string): string[][] {
  const lines = section.split('\n').filter(line => line.startsWith('| '))
  return lines.slice(2).map(line =>
    line
      .split('|')
      .map(cell => cell.trim())
      .slice(1, -1),
  )
}
