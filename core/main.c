/* Nothing but the way in. */
int main(void)
{
	return 0;
}
