# Prints one lower-case word a line. A word is a run of letters; an apostrophe
# belongs to it only between two letters.
{
	line = tolower($0)
	while (match(line, /[a-z]+('[a-z]+)*/)) {
		print substr(line, RSTART, RLENGTH)
		line = substr(line, RSTART + RLENGTH)
	}
}
